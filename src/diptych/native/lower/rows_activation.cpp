// Activations.
#include <cmath>

#include "diptych/native/lower/row_shapes.h"
#include "diptych/ops/gelu_constants.h"

namespace diptych::detail {
namespace {

Term relu_of(const Term& x) { return maximum(x, x.like(0)); }
Term threshold_of(const NodeLowering& node, const Term& x) {
  return (x <= x.like(node.scalar(1))).choose(x.like(node.scalar(2)), x);
}
Term leaky_relu_of(const NodeLowering& node, const Term& x) { return (x > 0.0).choose(x, x * node.number(1, 0.01)); }
Term elu_of(const NodeLowering& node, const Term& x) {
  const double scale = node.number(2, 1);
  const Term negative = (x * node.number(3, 1)).apply("expm1") * (node.number(1, 1) * scale);
  return (x <= 0.0).choose(negative, x * scale);
}
Term celu_of(const NodeLowering& node, const Term& x) {
  const double alpha = node.number(1, 1);
  return (x <= 0.0).choose((x * (1 / alpha)).apply("expm1") * alpha, x);
}

Term gelu_of(const NodeLowering& node, const Term& x) {
  if (node.text(1) != "tanh") return x * 0.5 * ((x * kInverseSqrt2).apply("erf") + 1.0);
  return x * 0.5 * (tanh((x + x * x * x * kGeluCubic) * kSqrt2OverPi) + 1.0);
}
Term sigmoid_of(const Term& x) { return sigmoid(x); }
Term silu_of(const Term& x) { return x / (exp(-x) + 1.0); }
Term mish_of(const Term& x) { return x * tanh(exp(x).apply("log1p")); }

Term six_clamped(const Term& x) { return minimum(maximum(x + 3.0, x.like(0)), x.like(6)); }
Term hardswish_of(const Term& x) { return x * six_clamped(x) / 6.0; }
Term hardsigmoid_of(const Term& x) { return six_clamped(x) / 6.0; }

Term softplus_of(const NodeLowering& node, const Term& x) {
  const double beta = node.number(1, 1);
  const Term scaled = x * beta;
  return (scaled > node.number(2, 20)).choose(x, exp(scaled).apply("log1p") / beta);
}
Terms log_sigmoid(NodeLowering& node) {
  const Term x = node.operand(0), z = exp(-abs(x));
  return {minimum(x, x.like(0)) - z.apply("log1p"), z};
}

Term is_shrunk(const Term& x, double bound) { return (x >= -bound) & (x <= bound); }
Term hardshrink_of(const NodeLowering& node, const Term& x) {
  return is_shrunk(x, in_dtype(node, node.number(1, 0.5))).choose(0.0, x);
}
Term softshrink_of(const NodeLowering& node, const Term& x) {
  const double bound = node.number(1, 0.5);
  return (x > bound).choose(x - bound, (x < -bound).choose(x + bound, x * 0.0));
}
Term prelu_of(const Term& x, const Term& weight) { return (x > 0.0).choose(x, weight * x); }

constexpr KernelRow kActivationRows[] = {
    {"aten.relu", place_pointwise, formula_of_one<relu_of>, has_number_result},
    {"aten.threshold", place_pointwise, formula_with_numbers<threshold_of>, has_number_result},
    {"aten.leaky_relu", place_pointwise, formula_with_numbers<leaky_relu_of>, has_float_result},
    {"aten.elu", place_pointwise, formula_with_numbers<elu_of>, has_float_result},
    {"aten.celu", place_pointwise, formula_with_numbers<celu_of>, has_float_result},
    {"aten.gelu", place_pointwise, formula_with_numbers<gelu_of>, has_float_result},
    also_complex({"aten.sigmoid", place_pointwise, formula_of_one<sigmoid_of>, has_inexact_result}),
    {"aten.silu", place_pointwise, formula_of_one<silu_of>, has_float_result},
    {"aten.mish", place_pointwise, formula_of_one<mish_of>, has_float_result},
    {"aten.hardswish", place_pointwise, formula_of_one<hardswish_of>, has_float_result},
    {"aten.hardsigmoid", place_pointwise, formula_of_one<hardsigmoid_of>, has_float_result},
    {"aten.softplus", place_pointwise, formula_with_numbers<softplus_of>, has_float_result},
    {"aten.log_sigmoid_forward", place_pointwise, log_sigmoid, has_float_result},
    {"aten.hardshrink", place_pointwise, formula_with_numbers<hardshrink_of>, has_float_result},
    {"aten.softshrink", place_pointwise, formula_with_numbers<softshrink_of>, has_float_result},
    {"aten._prelu_kernel", place_pointwise, formula_of_two<prelu_of>, has_float_result},
};

}  // namespace

std::span<const KernelRow> activation_rows() { return kActivationRows; }

}  // namespace diptych::detail
