// Quotients, remainders and powers.
#include <cmath>
#include <optional>
#include <utility>

#include "diptych/native/lower/row_shapes.h"

namespace diptych::detail {
namespace {

Terms divide(NodeLowering& node) { return {node.exact_operand(0) / node.exact_operand(1)}; }
Term floored_quotient(const Term& x, const Term& y) { return x.apply("floor_div", y); }

std::string rounding_mode(const NodeArguments& node) { return node.text(2); }
Terms divide_with_mode(NodeLowering& node) {
  const Term x = node.operand(0), y = node.operand(1);
  const std::string mode = rounding_mode(node);
  if (mode.empty()) return {x / y};
  return {x.apply(mode == "floor" ? "floor_div" : "trunc_div", y)};
}
template <const char* kOp>
Terms remainder(NodeLowering& node) {
  return {node.operand(0).apply(kOp, node.operand(1))};
}

// Eager raises an error where an integer is divided by zero, which a kernel can't: so the divisor has to be known.
bool divides_exactly(const NodeArguments& node) {
  if (at::isFloatingType(node.dtype())) return true;
  if (!has_integer_result(node) || !node.is_number(1) || !node.scalar(1).isIntegral(true)) return false;
  const auto divisor = node.scalar(1).to<int64_t>();
  return divisor != 0 && divisor >= -128 && divisor <= (node.dtype() == at::kChar ? 127 : 255);
}
// Of halves ATen rounds what it computes on the way to a whole quotient, by ways that differ with the operands.
bool rounds_exactly(const NodeArguments& node) { return divides_exactly(node) && !has_dtype(kHalves, node.dtype()); }
bool divides_exactly_with_mode(const NodeArguments& node) {
  return rounding_mode(node).empty() ? at::isFloatingType(node.dtype()) : rounds_exactly(node);
}

// Powers of floats that ATen computes by other means than pow; none for others.
std::optional<Term> simple_power(const Term& x, double exponent) {
  if (exponent == 0) return x.like(1);
  if (exponent == 1) return x;
  if (exponent == 2) return x * x;
  if (exponent == 3) return x * x * x;
  if (exponent == 0.5) return sqrt(x);
  if (exponent == -0.5) return x.apply("rsqrt");
  if (exponent == -1) return 1.0 / x;
  if (exponent == -2) return 1.0 / (x * x);
  return std::nullopt;
}
// By squaring, for integers, whose powers are those modulo two to the number of bits in any order.
Term whole_power(const Term& x, int64_t exponent) {
  std::optional<Term> result;
  for (Term power = x;; power = power * power) {
    if ((exponent & 1) != 0) result = result ? *result * power : power;
    exponent >>= 1;
    if (exponent == 0) return result ? *result : x.like(1);
  }
}
Terms raise(NodeLowering& node) {
  const Term x = node.operand(0);
  if (node.is_number(1)) {
    const auto exponent = node.scalar(1);
    if (exponent.isComplex()) return {x.apply("pow", x.like(exponent))};
    // ATen's kernel of f16 takes roots by pow, which has no negative zero and makes an infinity of the negative one.
    const bool is_root = std::abs(exponent.to<double>()) == 0.5;
    const bool is_pow = node.dtype() == at::kHalf && is_root;
    if (has_integer_result(node)) return {whole_power(x, exponent.to<int64_t>())};
    const auto power = is_pow ? std::nullopt : simple_power(x, exponent.to<double>());
    return {power ? *power : x.apply("pow", x.like(exponent))};
  }
  return {x.apply("pow", node.operand(1))};
}
bool has_integer(at::ScalarType dtype, int64_t number) {
  bool has = false;
  with_element_type<kIntegers>(dtype, [&]<class T>(std::type_identity<T>) { has = std::in_range<T>(number); });
  return has;
}
// Eager raises an error for a negative number as the exponent of integers, and for one that their dtype does not have;
// in a tensor it is taken.
bool has_power(const NodeArguments& node) {
  if (has_inexact_result(node)) return true;
  if (!has_integer_result(node)) return false;
  if (!node.is_number(1)) return true;
  const auto exponent = node.scalar(1);
  return exponent.isIntegral(true) && exponent.to<int64_t>() >= 0 && has_integer(node.dtype(), exponent.to<int64_t>());
}

constexpr char kRem[] = "rem", kFmod[] = "fmod";

constexpr KernelRow kDivisionRows[] = {
    also_complex({"aten.div.Tensor", place_pointwise, divide, has_inexact_result, 1U << 1U}),
    also_complex({"aten.div.Scalar", place_pointwise, divide, has_inexact_result, 1U << 1U}),
    {"aten.div.Tensor_mode", place_pointwise, divide_with_mode, divides_exactly_with_mode},
    {"aten.div.Scalar_mode", place_pointwise, divide_with_mode, divides_exactly_with_mode},
    {"aten.floor_divide", place_pointwise, formula_of_two<floored_quotient>, rounds_exactly},
    {"aten.floor_divide.Scalar", place_pointwise, formula_of_two<floored_quotient>, rounds_exactly},
    {"aten.fmod.Tensor", place_pointwise, remainder<kFmod>, divides_exactly},
    {"aten.fmod.Scalar", place_pointwise, remainder<kFmod>, divides_exactly},
    {"aten.remainder.Tensor", place_pointwise, remainder<kRem>, divides_exactly},
    {"aten.remainder.Scalar", place_pointwise, remainder<kRem>, divides_exactly},
    {"aten.remainder.Scalar_Tensor", place_pointwise, remainder<kRem>, divides_exactly},
    also_complex({"aten.pow.Tensor_Scalar", place_pointwise, raise, has_power}),
    also_complex({"aten.pow.Tensor_Tensor", place_pointwise, raise, has_power}),
    also_complex({"aten.pow.Scalar", place_pointwise, raise, has_power}),
};

}  // namespace

std::span<const KernelRow> division_rows() { return kDivisionRows; }

}  // namespace diptych::detail
