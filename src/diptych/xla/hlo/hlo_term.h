// Formulas over elements, written as C++ expressions: x * log(y) becomes the operations of StableHLO that compute it.
#pragma once
#include <limits>
#include <numbers>
#include <string_view>

#include "diptych/ops/rounded_number.h"
#include "diptych/xla/hlo/hlo_writer.h"
#include "diptych/xla/hlo/lowering.h"

namespace diptych::detail {

/// A value with its writer. Operands of one operation have one type; a number takes the type of the other operand.
class HloTerm {
 public:
  HloTerm(HloWriter& writer, Hlo value) : writer_(&writer), value_(std::move(value)) {}

  const Hlo& value() const { return value_; }
  HloWriter& writer() const { return *writer_; }
  at::ScalarType dtype() const { return value_.dtype; }

  HloTerm with(Hlo value) const { return {*writer_, std::move(value)}; }
  HloTerm like(const at::Scalar& number) const { return with(writer_->constant(number, value_.dtype, value_.sizes)); }
  HloTerm unary(std::string_view operation) const { return with(writer_->unary(operation, value_)); }
  HloTerm chlo(std::string_view operation) const { return with(writer_->chlo(operation, value_)); }
  HloTerm binary(std::string_view operation, const HloTerm& other) const {
    return with(writer_->binary(operation, value_, other.value_));
  }
  HloTerm compare(const char* direction, const HloTerm& other) const {
    return with(writer_->compare(direction, value_, other.value_));
  }
  HloTerm part(std::string_view operation) const { return with(writer_->complex_part(operation, value_)); }
  HloTerm to(at::ScalarType dtype) const { return with(writer_->convert(value_, dtype)); }
  /// The value as it is, where the compiler must not fold a constant into what follows.
  HloTerm opaque() const { return with(writer_->optimization_barrier({value_})[0]); }

  HloTerm operator-() const { return unary("negate"); }
  HloTerm operator!() const { return unary("not"); }
  HloTerm operator+(const HloTerm& y) const { return binary("add", y); }
  HloTerm operator-(const HloTerm& y) const { return binary("subtract", y); }
  HloTerm operator*(const HloTerm& y) const { return binary("multiply", y); }
  HloTerm operator/(const HloTerm& y) const { return binary("divide", y); }
  HloTerm operator&(const HloTerm& y) const { return binary("and", y); }
  HloTerm operator|(const HloTerm& y) const { return binary("or", y); }
  HloTerm operator<(const HloTerm& y) const { return compare("LT", y); }
  HloTerm operator>(const HloTerm& y) const { return compare("GT", y); }
  HloTerm operator<=(const HloTerm& y) const { return compare("LE", y); }
  HloTerm operator>=(const HloTerm& y) const { return compare("GE", y); }
  HloTerm equals(const HloTerm& y) const { return compare("EQ", y); }
  HloTerm differs(const HloTerm& y) const { return compare("NE", y); }

  HloTerm operator+(double y) const { return *this + like(y); }
  HloTerm operator-(double y) const { return *this - like(y); }
  HloTerm operator*(double y) const { return *this * like(y); }
  HloTerm operator/(double y) const { return *this / like(y); }
  HloTerm operator<(double y) const { return *this < like(y); }
  HloTerm operator>(double y) const { return *this > like(y); }
  HloTerm operator<=(double y) const { return *this <= like(y); }
  HloTerm operator>=(double y) const { return *this >= like(y); }
  HloTerm equals(double y) const { return equals(like(y)); }
  HloTerm differs(double y) const { return differs(like(y)); }

  HloTerm abs() const {
    if (dtype() == at::kByte || dtype() == at::kBool) return *this;
    return at::isComplexType(dtype()) ? part("abs") : unary("abs");
  }
  HloTerm log() const { return unary("log"); }
  HloTerm exp() const { return unary("exponential"); }
  HloTerm log1p() const { return unary("log_plus_one"); }
  HloTerm expm1() const { return unary("exponential_minus_one"); }
  HloTerm sqrt() const { return unary("sqrt"); }
  HloTerm is_nan() const {
    if (at::isComplexType(dtype())) return part("real").is_nan() | part("imag").is_nan();
    return differs(*this);
  }
  HloTerm is_infinite() const {
    if (at::isComplexType(dtype())) return part("real").is_infinite() | part("imag").is_infinite();
    return abs().equals(std::numeric_limits<double>::infinity());
  }
  /// Towards zero.
  HloTerm truncated() const {
    return with(writer_->select((*this < 0.0).value_, unary("ceil").value_, unary("floor").value_));
  }
  /// As a boolean: `*this ? x : y`.
  HloTerm choose(const HloTerm& x, const HloTerm& y) const { return with(writer_->select(value_, x.value_, y.value_)); }
  HloTerm choose(double x, const HloTerm& y) const { return choose(y.like(x), y); }
  HloTerm choose(const HloTerm& x, double y) const { return choose(x, x.like(y)); }

 private:
  HloWriter* writer_;
  Hlo value_;
};

inline HloTerm operator+(double x, const HloTerm& y) { return y.like(x) + y; }
inline HloTerm operator-(double x, const HloTerm& y) { return y.like(x) - y; }
inline HloTerm operator*(double x, const HloTerm& y) { return y.like(x) * y; }
inline HloTerm operator/(double x, const HloTerm& y) { return y.like(x) / y; }
/// NaN where one is NaN. Of zeros of two signs the first, as in ATen, where StableHLO's own takes the one beyond.
inline HloTerm maximum(const HloTerm& x, const HloTerm& y) {
  return at::isFloatingType(x.dtype()) ? (y > x | y.is_nan()).choose(y, x) : x.binary("maximum", y);
}
inline HloTerm minimum(const HloTerm& x, const HloTerm& y) {
  return at::isFloatingType(x.dtype()) ? (y < x | y.is_nan()).choose(y, x) : x.binary("minimum", y);
}

/// The whole numbers that have as many bits as a float.
inline at::ScalarType bits_of(at::ScalarType dtype) {
  if (dtype == at::kDouble) return at::kLong;
  return dtype == at::kFloat ? at::kInt : at::kShort;
}

/// Operand `index` spread over the result, in the dtype that the operator computes in. ATen has rounded it to the
/// result's dtype before.
inline HloTerm computed_operand(const Lowering& node, size_t index) {
  return HloTerm(node.writer(), node.spread(index, node.dtype())).to(Lowering::wide(node.dtype()));
}
/// The same of an operand that ATen does not round if it is one number: a factor, a divisor, a weight.
inline HloTerm exact_operand(const Lowering& node, size_t index) {
  const auto* value = std::get_if<Value>(&node.node().operands[index]);
  if (value != nullptr && !node.graph().meta(*value).sizes.empty()) return computed_operand(node, index);
  return {node.writer(), node.spread(index, Lowering::wide(node.dtype()))};
}
/// The node's only result.
inline std::vector<Hlo> as_result(const Lowering& node, const HloTerm& x) { return {x.to(node.dtype()).value()}; }

/// Rules that apply a formula of one, two or three operands in the dtype that the operator computes in.
template <HloTerm (*kFormula)(const HloTerm&)>
std::vector<Hlo> formula_of_one(const Lowering& node) {
  return as_result(node, kFormula(computed_operand(node, 0)));
}
template <HloTerm (*kFormula)(const HloTerm&, const HloTerm&)>
std::vector<Hlo> formula_of_two(const Lowering& node) {
  return as_result(node, kFormula(computed_operand(node, 0), computed_operand(node, 1)));
}
template <HloTerm (*kFormula)(const HloTerm&, const HloTerm&)>
std::vector<Hlo> formula_of_two_exactly(const Lowering& node) {
  return as_result(node, kFormula(exact_operand(node, 0), exact_operand(node, 1)));
}
/// The same for a formula with numbers of the node.
template <HloTerm (*kFormula)(const Lowering&, const HloTerm&)>
std::vector<Hlo> formula_with_numbers(const Lowering& node) {
  return as_result(node, kFormula(node, computed_operand(node, 0)));
}
template <HloTerm (*kFormula)(const Lowering&, const HloTerm&, const HloTerm&)>
std::vector<Hlo> formula_of_two_with_numbers(const Lowering& node) {
  return as_result(node, kFormula(node, computed_operand(node, 0), computed_operand(node, 1)));
}

/// A number as the node's dtype holds it: the kernels of some operators round their bounds first.
inline double in_dtype(const Lowering& node, double number) { return rounded_to(node.dtype(), number); }

inline bool has_real_float_result(const Lowering& node) { return at::isFloatingType(node.dtype()); }
inline bool has_whole_result(const Lowering& node) { return at::isIntegralType(node.dtype(), false); }
inline bool has_real_result(const Lowering& node) { return !at::isComplexType(node.dtype()); }

}  // namespace diptych::detail
