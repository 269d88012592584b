// Rules that apply a formula to the operands of a pointwise node.
#pragma once
#include "diptych/native/lower/kernel_row.h"
#include "diptych/ops/rounded_number.h"

namespace diptych::detail {

/// A formula of one, two or three operands, in the dtype that the result asks for.
template <Term (*kFormula)(const Term&)>
Terms formula_of_one(NodeLowering& node) {
  return {kFormula(node.operand(0))};
}
template <Term (*kFormula)(const Term&, const Term&)>
Terms formula_of_two(NodeLowering& node) {
  return {kFormula(node.operand(0), node.operand(1))};
}
/// The same with numbers of the node.
template <Term (*kFormula)(const NodeLowering&, const Term&)>
Terms formula_with_numbers(NodeLowering& node) {
  return {kFormula(node, node.operand(0))};
}
template <Term (*kFormula)(const NodeLowering&, const Term&, const Term&)>
Terms formula_of_two_with_numbers(NodeLowering& node) {
  return {kFormula(node, node.operand(0), node.operand(1))};
}

/// A number as the node's dtype holds it: the kernels of some operators round their bounds first.
inline double in_dtype(const NodeArguments& node, double number) { return rounded_to(node.dtype(), number); }

inline bool has_float_result(const NodeArguments& node) { return at::isFloatingType(node.dtype()); }
inline bool has_inexact_result(const NodeArguments& node) {
  return has_dtype(kFloats | kHalves | kComplexes, node.dtype());
}
inline bool has_integer_result(const NodeArguments& node) { return at::isIntegralType(node.dtype(), false); }
inline bool has_number_result(const NodeArguments& node) { return node.dtype() != at::kBool; }
inline bool has_bits_result(const NodeArguments& node) { return at::isIntegralType(node.dtype(), true); }

}  // namespace diptych::detail
