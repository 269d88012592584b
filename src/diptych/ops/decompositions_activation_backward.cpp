// Gradients of activations and dropout. The first operand is the gradient of the output.
#include "diptych/ops/decompositions.h"
#include "diptych/ops/gelu_constants.h"

namespace diptych::detail {
namespace {

std::vector<Value> tanh_backward(const Call& call) {
  if (at::isComplexType(call.tensor(0).meta().dtype)) return {};
  const Expr y = call.wide(1);
  return call.result(call.wide(0) * (1.0 - y * y));
}

std::vector<Value> sigmoid_backward(const Call& call) {
  if (at::isComplexType(call.tensor(0).meta().dtype)) return {};
  const Expr y = call.wide(1);
  return call.result(call.wide(0) * (1.0 - y) * y);
}

std::vector<Value> threshold_backward(const Call& call) {
  const Expr g = call.tensor(0);
  return {where(call.tensor(1).apply("aten.le.Scalar", {call.constant(2)}), 0.0, g).value};
}

std::vector<Value> silu_backward(const Call& call) {
  const Expr x = call.wide(1);
  const Expr s = x.apply("aten.sigmoid");
  return call.result(call.wide(0) * s * (x * (1.0 - s) + 1.0));
}

std::vector<Value> gelu_backward(const Call& call) {
  const Expr g = call.wide(0);
  const Expr x = call.wide(1);
  if (call.constant(2).toStringRef() == "tanh") {
    const Expr t = ((x + x * x * x * kGeluCubic) * kSqrt2OverPi).apply("aten.tanh");
    const Expr inner_slope = (x * x * (3.0 * kGeluCubic) + 1.0) * kSqrt2OverPi;
    return call.result(g * ((t + 1.0) * 0.5 + x * 0.5 * (1.0 - t * t) * inner_slope));
  }
  const Expr cdf = ((x * kInverseSqrt2).apply("aten.erf") + 1.0) * 0.5;
  const Expr pdf = (x * x * -0.5).apply("aten.exp") * kInverseSqrt2Pi;
  return call.result(g * (cdf + x * pdf));
}

std::vector<Value> hardtanh_backward(const Call& call) {
  const Expr g = call.tensor(0);
  const Expr x = call.tensor(1);
  const Expr is_outside = (x <= call.number(2)) | (x >= call.number(3));
  return {where(is_outside, 0.0, g).value};
}

std::vector<Value> hardsigmoid_backward(const Call& call) {
  const Expr g = call.wide(0);
  const Expr x = call.wide(1);
  const Expr is_inside = (x > -3.0).apply("aten.logical_and", {(x < 3.0).value});
  // The kernel's constant has the precision of f32, also for f64.
  return call.result(where(is_inside, g * static_cast<double>(1.0F / 6.0F), 0.0));
}

std::vector<Value> hardswish_backward(const Call& call) {
  const Expr g = call.wide(0);
  const Expr x = call.wide(1);
  const Expr inside = where(x < 3.0, g * (x / 3.0 + 0.5), g);
  return call.result(where(x <= -3.0, 0.0, inside));
}

std::vector<Value> leaky_relu_backward(const Call& call) {
  const Expr g = call.wide(0);
  return call.result(where(call.wide(1) > 0.0, g, g * call.number(2)));
}

std::vector<Value> elu_backward(const Call& call) {
  const Expr g = call.wide(0);
  const Expr x = call.wide(5);  // the input, or the output where is_result is set
  const double negative = call.number(1) * call.number(2);
  const double input_scale = call.number(3);
  const Expr slope =
      call.flag(4) ? (x + negative) * input_scale : (x * input_scale).apply("aten.exp") * (input_scale * negative);
  return call.result(where(x <= 0.0, g * slope, g * call.number(2)));
}

std::vector<Value> softplus_backward(const Call& call) {
  const Expr g = call.wide(0);
  const Expr scaled = call.wide(1) * call.number(2);
  return call.result(where(scaled > call.number(3), g, g * scaled.apply("aten.sigmoid")));
}

std::vector<Value> log_sigmoid_backward(const Call& call) {
  return call.result(call.wide(0) * (-call.wide(1)).apply("aten.sigmoid"));
}

std::vector<Value> mish_backward(const Call& call) {
  const Expr x = call.wide(1);
  const Expr t = x.apply("aten.softplus").apply("aten.tanh");
  return call.result(call.wide(0) * (t + x * x.apply("aten.sigmoid") * (1.0 - t * t)));
}

std::vector<Value> native_dropout_backward(const Call& call) {
  return {(call.tensor(0) * call.tensor(1) * call.number(2)).value};
}

}  // namespace

std::vector<Decomposition> activation_backward_decompositions() {
  return {
      {"aten.tanh_backward", "activation", tanh_backward},
      {"aten.sigmoid_backward", "activation", sigmoid_backward},
      {"aten.threshold_backward", "activation", threshold_backward},
      {"aten.silu_backward", "activation", silu_backward},
      {"aten.gelu_backward", "activation", gelu_backward},
      {"aten.hardtanh_backward", "activation", hardtanh_backward},
      {"aten.hardsigmoid_backward", "activation", hardsigmoid_backward},
      {"aten.hardswish_backward", "activation", hardswish_backward},
      {"aten.leaky_relu_backward", "activation", leaky_relu_backward},
      {"aten.elu_backward", "activation", elu_backward},
      {"aten.softplus_backward", "activation", softplus_backward},
      {"aten.log_sigmoid_backward", "activation", log_sigmoid_backward},
      {"aten.mish_backward", "activation", mish_backward},
      {"aten.native_dropout_backward", "dropout", native_dropout_backward},
  };
}

}  // namespace diptych::detail
