// Gradients of activations and of pointwise losses. The first operand is the gradient of the output.
#include "diptych/native/lower/row_shapes.h"
#include "diptych/ops/gelu_constants.h"

namespace diptych::detail {
namespace {

Term threshold_gradient(const NodeLowering& node, const Term& g, const Term& x) {
  return (x <= x.like(node.scalar(2))).choose(0.0, g);
}
Term tanh_gradient(const Term& g, const Term& y) { return g * conj(1.0 - y * y); }
Term sigmoid_gradient(const Term& g, const Term& y) {
  return y.is_complex() ? g * conj((1.0 - y) * y) : g * (1.0 - y) * y;
}
Term leaky_relu_gradient(const NodeLowering& node, const Term& g, const Term& x) {
  return (x > 0.0).choose(g, g * node.number(2));
}
// Of the input, or of the output where that is given.
Terms elu_gradient(NodeLowering& node) {
  const Term g = node.operand(0), x = node.operand(5);
  const double scale = node.number(2), negative = node.number(1) * scale, input_scale = node.number(3);
  const Term slope = node.flag(4) ? (x + negative) * input_scale : exp(x * input_scale) * (input_scale * negative);
  return {(x <= 0.0).choose(g * slope, g * scale)};
}

Term gelu_gradient(const NodeLowering& node, const Term& g, const Term& x) {
  if (node.text(2) != "tanh") {
    const Term part = ((x * kInverseSqrt2).apply("erf") + 1.0) * 0.5;
    return g * (part + x * (exp(x * x * -0.5) * kInverseSqrt2Pi));
  }
  const Term t = tanh((x + x * x * x * kGeluCubic) * kSqrt2OverPi);
  const Term inner_slope = (x * x * (3 * kGeluCubic) + 1.0) * kSqrt2OverPi;
  return g * ((t + 1.0) * 0.5 + x * 0.5 * (1.0 - t * t) * inner_slope);
}
Term silu_gradient(const Term& g, const Term& x) {
  const Term s = sigmoid(x);
  return g * s * (x * (1.0 - s) + 1.0);
}
Term mish_gradient(const Term& g, const Term& x) {
  const Term t = tanh(exp(x).apply("log1p"));
  return g * (t + x * sigmoid(x) * (1.0 - t * t));
}

Term hardtanh_gradient(const NodeLowering& node, const Term& g, const Term& x) {
  return ((x <= x.like(node.scalar(2))) | (x >= x.like(node.scalar(3)))).choose(0.0, g);
}
// The kernel's constant has the precision of f32, also for f64.
Term hardsigmoid_gradient(const Term& g, const Term& x) {
  return ((x > -3.0) & (x < 3.0)).choose(g * static_cast<double>(1.0F / 6.0F), 0.0);
}
Term hardswish_gradient(const Term& g, const Term& x) {
  return (x <= -3.0).choose(0.0, (x < 3.0).choose(g * (x / 3.0 + 0.5), g));
}

Term softplus_gradient(const NodeLowering& node, const Term& g, const Term& x) {
  const Term scaled = x * node.number(2), z = exp(scaled);
  return (scaled > node.number(3)).choose(g, g * z / (z + 1.0));
}
// The third operand is exp(-|x|), from the forward pass.
Terms log_sigmoid_gradient(NodeLowering& node) {
  const Term g = node.operand(0), x = node.operand(1), z = node.operand(2), is_negative = x < 0.0;
  const Term tail = z / (z + 1.0);
  return {is_negative.choose(1.0 - tail, tail) * g};
}

Term shrink_gradient(const NodeLowering& node, const Term& g, const Term& x) {
  const double bound = in_dtype(node, node.number(2, 0.5));
  return ((x >= -bound) & (x <= bound)).choose(0.0, g);
}
Terms prelu_gradients(NodeLowering& node) {
  const Term g = node.operand(0), x = node.operand(1), weight = node.operand(2), is_kept = x > 0.0;
  return {is_kept.choose(g, weight * g), is_kept.choose(0.0, x * g)};
}

// `number` over how many elements a mean is of; itself for a sum, or for each element.
Term share_of_each(NodeLowering& node, size_t reduction, double number) {
  constexpr int64_t kMean = 1;
  const at::ScalarType dtype = NodeLowering::wide(node.dtype());
  if (node.integer(reduction) != kMean) return node.constant(number, dtype);
  SizeExpr count = 1;
  for (const SizeExpr& size : node.meta(1).sizes) count = count * size;
  if (count.is_static()) return node.constant(number / static_cast<double>(count.hint()), dtype);
  return node.constant(number, dtype) / node.size(count).to(dtype);
}
// Operands of several dtypes are decomposed, into arithmetic in the dtype that they promote to.
bool has_alike_operands(const NodeArguments& node) {
  return has_float_result(node) && node.operand_dtype(0) == node.dtype() && node.operand_dtype(1) == node.dtype() &&
         node.operand_dtype(2) == node.dtype();
}
Terms squared_error_gradient(NodeLowering& node) {
  const Term difference = node.operand(1) - node.operand(2);
  return {difference * share_of_each(node, 3, 2) * node.operand(0)};
}
Terms smooth_error_gradient(NodeLowering& node) {
  const Term g = node.operand(0), x = node.operand(1) - node.operand(2), share = share_of_each(node, 3, 1);
  const double beta = node.number(4);
  const Term inside = x * share * g / beta;
  return {(x <= -beta).choose(-(g * share), (x >= beta).choose(g * share, inside))};
}

constexpr KernelRow kActivationGradientRows[] = {
    {"aten.threshold_backward", place_pointwise, formula_of_two_with_numbers<threshold_gradient>, has_number_result},
    also_complex({"aten.tanh_backward", place_pointwise, formula_of_two<tanh_gradient>, has_inexact_result}),
    also_complex({"aten.sigmoid_backward", place_pointwise, formula_of_two<sigmoid_gradient>, has_inexact_result}),
    {"aten.leaky_relu_backward", place_pointwise, formula_of_two_with_numbers<leaky_relu_gradient>, has_float_result},
    {"aten.elu_backward", place_pointwise, elu_gradient, has_float_result},
    {"aten.gelu_backward", place_pointwise, formula_of_two_with_numbers<gelu_gradient>, has_float_result},
    {"aten.silu_backward", place_pointwise, formula_of_two<silu_gradient>, has_float_result},
    {"aten.mish_backward", place_pointwise, formula_of_two<mish_gradient>, has_float_result},
    {"aten.hardtanh_backward", place_pointwise, formula_of_two_with_numbers<hardtanh_gradient>, has_float_result},
    {"aten.hardsigmoid_backward", place_pointwise, formula_of_two<hardsigmoid_gradient>, has_float_result},
    {"aten.hardswish_backward", place_pointwise, formula_of_two<hardswish_gradient>, has_float_result},
    {"aten.softplus_backward", place_pointwise, formula_of_two_with_numbers<softplus_gradient>, has_float_result},
    {"aten.log_sigmoid_backward", place_pointwise, log_sigmoid_gradient, has_float_result},
    {"aten.hardshrink_backward", place_pointwise, formula_of_two_with_numbers<shrink_gradient>, has_float_result},
    {"aten.softshrink_backward", place_pointwise, formula_of_two_with_numbers<shrink_gradient>, has_float_result},
    {"aten._prelu_kernel_backward", place_pointwise, prelu_gradients, has_float_result},
    {"aten.mse_loss_backward", place_pointwise, squared_error_gradient, has_alike_operands},
    {"aten.smooth_l1_loss_backward", place_pointwise, smooth_error_gradient, has_alike_operands},
};

}  // namespace

std::span<const KernelRow> activation_gradient_rows() { return kActivationGradientRows; }

}  // namespace diptych::detail
