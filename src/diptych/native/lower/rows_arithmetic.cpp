// Arithmetic, selections and copies of elements.
#include "diptych/native/lower/row_shapes.h"

namespace diptych::detail {
namespace {

// alpha * x, with the product left out where alpha is one.
Term scaled_operand(const NodeLowering& node, size_t index) {
  const Term x = node.operand(index);
  const auto alpha = node.scalar(2, 1);
  if (alpha.equal(1)) return x;
  return x.is_bool() ? x & x.like(alpha) : x * x.like(alpha);
}
Terms add(NodeLowering& node) {
  const Term x = node.operand(0), y = scaled_operand(node, 1);
  return {x.is_bool() ? x | y : x + y};
}
// ATen refuses to subtract truth values.
bool subtracts_numbers(const NodeArguments& node) {
  return node.operand_dtype(0) != at::kBool && node.operand_dtype(1) != at::kBool;
}
// Eager multiplies what it subtracts from a complex number by a complex one, which makes NaN of infinities.
bool subtracts_from_alike(const NodeArguments& node) {
  const bool is_complex = at::isComplexType(node.dtype());
  return subtracts_numbers(node) && is_complex == at::isComplexType(node.operand_dtype(0));
}
Terms subtract(NodeLowering& node) { return {node.operand(0) - scaled_operand(node, 1)}; }
Terms subtract_from(NodeLowering& node) { return {node.operand(1) - scaled_operand(node, 0)}; }
Terms multiply(NodeLowering& node) {
  const Term x = node.exact_operand(0), y = node.exact_operand(1);
  return {x.is_bool() ? x & y : x * y};
}

Term times(const Term& x, const at::Scalar& factor) { return factor.equal(1) ? x : x.like(factor) * x; }
Terms add_product(NodeLowering& node) {
  return {node.operand(0) + times(node.operand(1), node.scalar(3, 1)) * node.operand(2)};
}
Terms add_quotient(NodeLowering& node) {
  return {node.operand(0) + times(node.operand(1), node.scalar(3, 1)) / node.operand(2)};
}

// Counted from the nearer end, so that the weights 0 and 1 return the ends exactly.
Terms interpolate(NodeLowering& node) {
  const Term from = node.operand(0), to = node.operand(1), weight = node.exact_operand(2), way = to - from;
  return {(abs(weight) < 0.5).choose(from + weight * way, to - way * (1.0 - weight))};
}

Term negative(const Term& x) { return -x; }
Terms absolute(NodeLowering& node) { return {abs(node.own(0).is_complex() ? node.own(0) : node.operand(0))}; }
Term sign_of(const Term& x) { return x.is_bool() ? x : x.apply("sign"); }
Term reciprocal_of(const Term& x) { return 1.0 / x; }

template <const char* kOp>
Term rounded_to_integer(const Term& x) {
  return x.is_float() ? x.apply(kOp) : x;
}
Term fraction_of(const Term& x) { return x - x.apply("trunc"); }

Term lesser(const Term& x, const Term& y) { return minimum(x, y); }
Term greater(const Term& x, const Term& y) { return maximum(x, y); }
// Of a number and NaN, the number. Of zeros of two signs eager's kernel takes the first, and the second of bf16.
template <Term (*kChoice)(const Term&, const Term&)>
Terms ignoring_nan(NodeLowering& node) {
  const Term x = node.operand(0), y = node.operand(1);
  if (!x.is_float()) return {kChoice(x, y)};
  const Term choice = node.dtype() == at::kBFloat16 ? kChoice(y, x) : kChoice(x, y);
  return {x.apply("is_nan").choose(y, y.apply("is_nan").choose(x, choice))};
}

// Bounds that are numbers, or tensors, by position; 0 for none. NaN is handed on.
template <size_t kLow, size_t kHigh>
Terms clamp(NodeLowering& node) {
  Term x = node.operand(0);
  if (kLow != 0 && node.is_given(kLow)) x = maximum(x, node.operand(kLow));
  if (kHigh != 0 && node.is_given(kHigh)) x = minimum(x, node.operand(kHigh));
  return {x};
}

// What eager makes of a bound below a dtype without a sign depends on its version.
bool has_bounds_of_dtype(const NodeArguments& node) {
  return has_number_result(node) && (node.dtype() != at::kByte || (node.number(1) >= 0 && node.number(2) >= 0));
}

Terms where(NodeLowering& node) { return {node.own(0).to(at::kBool).choose(node.operand(1), node.operand(2))}; }
Terms masked_fill(NodeLowering& node) { return {node.own(1).to(at::kBool).choose(node.operand(2), node.operand(0))}; }

// What is refused makes the flag by which the call is left to the interpreter: see Note [Indices are checked by a
// flag].
Terms checked_operand(NodeLowering& node) {
  node.check(node.own(1));
  return {node.own(0)};
}
Terms copy_operand(NodeLowering& node) { return {node.own(0)}; }
bool stays_strided(const NodeArguments& node) { return node.integer(2) == static_cast<int64_t>(at::kStrided); }
Terms copy_source(NodeLowering& node) { return {node.own(1)}; }
Terms fill_number(NodeLowering& node) { return {node.operand(1)}; }
Terms drop_gradient(NodeLowering& node) {
  const Term kept = node.operand(0) * node.operand(1);
  return {kept * kept.like(node.scalar(2))};
}

constexpr char kFloor[] = "floor", kCeil[] = "ceil", kTrunc[] = "trunc", kRound[] = "round";

constexpr uint32_t kSecond = 1U << 1U;

constexpr KernelRow kArithmeticRows[] = {
    also_complex({"aten.add.Tensor", place_pointwise, add, nullptr, kSecond}),
    also_complex({"aten.add.Scalar", place_pointwise, add, nullptr, kSecond}),
    also_complex({"aten.sub.Tensor", place_pointwise, subtract, subtracts_numbers, kSecond}),
    also_complex({"aten.sub.Scalar", place_pointwise, subtract, subtracts_numbers, kSecond}),
    also_complex({"aten.rsub.Tensor", place_pointwise, subtract_from, subtracts_numbers}),
    also_complex({"aten.rsub.Scalar", place_pointwise, subtract_from, subtracts_from_alike}),
    also_complex({"aten.mul.Tensor", place_pointwise, multiply, nullptr, kSecond}),
    also_complex({"aten.mul.Scalar", place_pointwise, multiply, nullptr, kSecond}),
    also_complex({"aten.addcmul", place_pointwise, add_product, has_number_result}),
    also_complex({"aten.addcdiv", place_pointwise, add_quotient, has_inexact_result}),
    {"aten.lerp.Scalar", place_pointwise, interpolate, has_float_result},
    {"aten.lerp.Tensor", place_pointwise, interpolate, has_float_result},
    also_complex({"aten.neg", place_pointwise, formula_of_one<negative>, has_number_result}),
    also_complex({"aten.abs", place_pointwise, absolute, has_number_result}),
    {"aten.sign", place_pointwise, formula_of_one<sign_of>},
    also_complex({"aten.sgn", place_pointwise, formula_of_one<sign_of>}),
    also_complex({"aten.reciprocal", place_pointwise, formula_of_one<reciprocal_of>}),
    {"aten.floor", place_pointwise, formula_of_one<rounded_to_integer<kFloor>>, has_number_result},
    {"aten.ceil", place_pointwise, formula_of_one<rounded_to_integer<kCeil>>, has_number_result},
    {"aten.trunc", place_pointwise, formula_of_one<rounded_to_integer<kTrunc>>, has_number_result},
    {"aten.round", place_pointwise, formula_of_one<rounded_to_integer<kRound>>, has_number_result},
    {"aten.frac", place_pointwise, formula_of_one<fraction_of>, has_float_result},
    {"aten.minimum", place_pointwise, formula_of_two<lesser>},
    {"aten.maximum", place_pointwise, formula_of_two<greater>},
    {"aten.fmin", place_pointwise, ignoring_nan<lesser>},
    {"aten.fmax", place_pointwise, ignoring_nan<greater>},
    {"aten.clamp", place_pointwise, clamp<1, 2>, has_bounds_of_dtype},
    {"aten.clamp.Tensor", place_pointwise, clamp<1, 2>, has_number_result},
    {"aten.hardtanh", place_pointwise, clamp<1, 2>, has_float_result},
    {"aten.clamp_min", place_pointwise, clamp<1, 0>, has_bounds_of_dtype},
    {"aten.clamp_min.Tensor", place_pointwise, clamp<1, 0>},
    {"aten.clamp_max", place_pointwise, clamp<0, 1>, has_bounds_of_dtype},
    {"aten.clamp_max.Tensor", place_pointwise, clamp<0, 1>},
    also_complex({"aten.where.self", place_pointwise, where}),
    also_complex({"aten.where.ScalarOther", place_pointwise, where}),
    also_complex({"aten.where.ScalarSelf", place_pointwise, where}),
    also_complex({"aten.where.Scalar", place_pointwise, where}),
    also_complex({"aten.masked_fill.Scalar", place_pointwise, masked_fill}),
    also_complex({"aten.masked_fill.Tensor", place_pointwise, masked_fill}),
    also_complex({"aten._to_copy", place_pointwise, copy_operand, stays_strided}),
    also_complex({"aten.clone", place_pointwise, copy_operand}),
    also_complex({"aten.contiguous", place_pointwise, copy_operand}),
    also_complex({"aten.alias", place_pointwise, copy_operand}),
    also_complex({"aten.detach", place_pointwise, copy_operand}),
    also_complex({"aten.lift_fresh_copy", place_pointwise, copy_operand}),
    also_complex({"aten.lift_fresh", place_pointwise, copy_operand}),
    also_complex({"aten.copy", place_pointwise, copy_source}),
    also_complex({"aten.fill.Scalar", place_pointwise, fill_number}),
    also_complex({"aten.fill.Tensor", place_pointwise, copy_source}),
    {"diptych.checked", place_pointwise, checked_operand},
    {"aten.native_dropout_backward", place_pointwise, drop_gradient, has_float_result},
};

}  // namespace

std::span<const KernelRow> arithmetic_rows() { return kArithmeticRows; }

}  // namespace diptych::detail
