// Comparisons, logical operations, operations on bits, and what kind of number an element is.
#include <limits>

#include "diptych/native/lower/row_shapes.h"

namespace diptych::detail {
namespace {

// Comparisons in the dtype that both operands promote to.
template <const char* kOp>
Terms compare(NodeLowering& node) {
  const auto dtype = node.common_dtype({0, 1});
  return {node.operand(0, dtype).apply(kOp, node.operand(1, dtype))};
}

// Halves beside a complex number are compared as a dtype that kernels do not have.
bool has_common_dtype(const NodeArguments& node) { return has_dtype(kStored, node.common_dtype({0, 1})); }

Terms logical_not(NodeLowering& node) { return {!node.own(0).to(at::kBool)}; }
template <const char* kOp>
Terms logical(NodeLowering& node) {
  return {node.own(0).to(at::kBool).apply(kOp, node.own(1).to(at::kBool))};
}

Term inverse_of(const Term& x) { return !x; }
template <const char* kOp>
Term bits_of_two(const Term& x, const Term& y) {
  return x.apply(kOp, y);
}

// A test of an operand in its own dtype, which is that of a float.
template <Term (*kTest)(const Term&), bool kOfIntegers>
Terms test(NodeLowering& node) {
  const Term x = node.own(0);
  return {x.is_float() ? kTest(x.to(NodeLowering::wide(x.dtype()))) : node.constant(kOfIntegers, at::kBool)};
}
template <const char* kOp>
Term plain_test(const Term& x) {
  return x.apply(kOp);
}
Term is_positive_infinity(const Term& x) { return x.equals(std::numeric_limits<double>::infinity()); }
Term is_negative_infinity(const Term& x) { return x.equals(-std::numeric_limits<double>::infinity()); }

Term has_sign(const Term& x) {
  if (x.is_float()) return x.to(NodeLowering::wide(x.dtype())).apply("sign_bit");
  return x.is_bool() ? x.like(false) : x < 0.0;
}
Terms sign_bit(NodeLowering& node) { return {has_sign(node.own(0))}; }
Term copy_sign(const Term& x, const Term& y) { return x.apply("copysign", y); }

constexpr char kEq[] = "eq", kNe[] = "ne", kLt[] = "lt", kLe[] = "le", kGt[] = "gt", kGe[] = "ge";
constexpr char kAnd[] = "and", kOr[] = "or", kXor[] = "xor", kLeft[] = "shift_left", kRight[] = "shift_right";
constexpr char kIsNan[] = "is_nan", kIsInf[] = "is_inf", kIsFinite[] = "is_finite";

constexpr KernelRow kComparisonRows[] = {
    also_complex({"aten.eq.Tensor", place_pointwise, compare<kEq>, has_common_dtype}),
    also_complex({"aten.eq.Scalar", place_pointwise, compare<kEq>, has_common_dtype}),
    also_complex({"aten.ne.Tensor", place_pointwise, compare<kNe>, has_common_dtype}),
    also_complex({"aten.ne.Scalar", place_pointwise, compare<kNe>, has_common_dtype}),
    {"aten.lt.Tensor", place_pointwise, compare<kLt>},
    {"aten.lt.Scalar", place_pointwise, compare<kLt>},
    {"aten.le.Tensor", place_pointwise, compare<kLe>},
    {"aten.le.Scalar", place_pointwise, compare<kLe>},
    {"aten.gt.Tensor", place_pointwise, compare<kGt>},
    {"aten.gt.Scalar", place_pointwise, compare<kGt>},
    {"aten.ge.Tensor", place_pointwise, compare<kGe>},
    {"aten.ge.Scalar", place_pointwise, compare<kGe>},
    also_complex({"aten.logical_not", place_pointwise, logical_not}),
    also_complex({"aten.logical_and", place_pointwise, logical<kAnd>}),
    also_complex({"aten.logical_or", place_pointwise, logical<kOr>}),
    also_complex({"aten.logical_xor", place_pointwise, logical<kXor>}),
    {"aten.bitwise_not", place_pointwise, formula_of_one<inverse_of>, has_bits_result},
    {"aten.bitwise_and.Tensor", place_pointwise, formula_of_two<bits_of_two<kAnd>>, has_bits_result},
    {"aten.bitwise_and.Scalar", place_pointwise, formula_of_two<bits_of_two<kAnd>>, has_bits_result},
    {"aten.bitwise_and.Scalar_Tensor", place_pointwise, formula_of_two<bits_of_two<kAnd>>, has_bits_result},
    {"aten.bitwise_or.Tensor", place_pointwise, formula_of_two<bits_of_two<kOr>>, has_bits_result},
    {"aten.bitwise_or.Scalar", place_pointwise, formula_of_two<bits_of_two<kOr>>, has_bits_result},
    {"aten.bitwise_or.Scalar_Tensor", place_pointwise, formula_of_two<bits_of_two<kOr>>, has_bits_result},
    {"aten.bitwise_xor.Tensor", place_pointwise, formula_of_two<bits_of_two<kXor>>, has_bits_result},
    {"aten.bitwise_xor.Scalar", place_pointwise, formula_of_two<bits_of_two<kXor>>, has_bits_result},
    {"aten.bitwise_xor.Scalar_Tensor", place_pointwise, formula_of_two<bits_of_two<kXor>>, has_bits_result},
    {"aten.bitwise_left_shift.Tensor", place_pointwise, formula_of_two<bits_of_two<kLeft>>, has_integer_result},
    {"aten.bitwise_left_shift.Tensor_Scalar", place_pointwise, formula_of_two<bits_of_two<kLeft>>, has_integer_result},
    {"aten.bitwise_left_shift.Scalar_Tensor", place_pointwise, formula_of_two<bits_of_two<kLeft>>, has_integer_result},
    {"aten.__lshift__.Tensor", place_pointwise, formula_of_two<bits_of_two<kLeft>>, has_integer_result},
    {"aten.__lshift__.Scalar", place_pointwise, formula_of_two<bits_of_two<kLeft>>, has_integer_result},
    {"aten.bitwise_right_shift.Tensor", place_pointwise, formula_of_two<bits_of_two<kRight>>, has_integer_result},
    {"aten.bitwise_right_shift.Tensor_Scalar", place_pointwise, formula_of_two<bits_of_two<kRight>>,
     has_integer_result},
    {"aten.bitwise_right_shift.Scalar_Tensor", place_pointwise, formula_of_two<bits_of_two<kRight>>,
     has_integer_result},
    {"aten.__rshift__.Tensor", place_pointwise, formula_of_two<bits_of_two<kRight>>, has_integer_result},
    {"aten.__rshift__.Scalar", place_pointwise, formula_of_two<bits_of_two<kRight>>, has_integer_result},
    {"aten.isnan", place_pointwise, test<plain_test<kIsNan>, false>},
    {"aten.isinf", place_pointwise, test<plain_test<kIsInf>, false>},
    {"aten.isfinite", place_pointwise, test<plain_test<kIsFinite>, true>},
    {"aten.isposinf", place_pointwise, test<is_positive_infinity, false>},
    {"aten.isneginf", place_pointwise, test<is_negative_infinity, false>},
    {"aten.signbit", place_pointwise, sign_bit},
    {"aten.copysign.Tensor", place_pointwise, formula_of_two<copy_sign>, has_float_result},
    {"aten.copysign.Scalar", place_pointwise, formula_of_two<copy_sign>, has_float_result},
};

}  // namespace

std::span<const KernelRow> comparison_rows() { return kComparisonRows; }

}  // namespace diptych::detail
