// Activations, dropout and fused pointwise operators. Half types are computed in f32, as the kernels do.
#include <cmath>

#include "diptych/ops/decompositions.h"
#include "diptych/ops/gelu_constants.h"

namespace diptych::detail {
namespace {

std::vector<Value> silu(const Call& call) {
  const Expr x = call.wide(0);
  return call.result(x * x.apply("aten.sigmoid"));
}

std::vector<Value> gelu(const Call& call) {
  const Expr x = call.wide(0);
  if (call.constant(1).toStringRef() == "tanh") {
    const Expr inner = (x + x * x * x * kGeluCubic) * kSqrt2OverPi;
    return call.result(x * 0.5 * (inner.apply("aten.tanh") + 1.0));
  }
  return call.result(x * 0.5 * ((x * kInverseSqrt2).apply("aten.erf") + 1.0));
}

std::vector<Value> hardtanh(const Call& call) {
  // clamp promotes whole numbers to the dtype of floating-point bounds, where hardtanh keeps its operand's.
  const bool is_whole = at::isIntegralType(call.tensor(0).meta().dtype, true);
  if (is_whole && (call.constant(1).isDouble() || call.constant(2).isDouble())) return {};
  return {call.tensor(0).apply("aten.clamp", {call.constant(1), call.constant(2)}).value};
}

Expr six_clamped(Expr x) { return (x + 3.0).apply("aten.clamp", {c10::IValue(0.0), c10::IValue(6.0)}); }

std::vector<Value> hardsigmoid(const Call& call) { return call.result(six_clamped(call.wide(0)) / 6.0); }

std::vector<Value> hardswish(const Call& call) {
  const Expr x = call.wide(0);
  return call.result(x * six_clamped(x) / 6.0);
}

std::vector<Value> leaky_relu(const Call& call) {
  const Expr x = call.wide(0);
  return call.result(where(x > 0.0, x, x * call.number(1)));
}

std::vector<Value> elu(const Call& call) {
  const Expr x = call.wide(0);
  const double scale = call.number(2);
  const Expr negative = (x * call.number(3)).apply("aten.expm1") * (call.number(1) * scale);
  return call.result(where(x <= 0.0, negative, x * scale));
}

std::vector<Value> softplus(const Call& call) {
  const Expr x = call.wide(0);
  const double beta = call.number(1);
  const Expr scaled = x * beta;
  return call.result(where(scaled > call.number(2), x, scaled.apply("aten.exp").apply("aten.log1p") / beta));
}

std::vector<Value> log_sigmoid(const Call& call) {
  const Expr x = call.wide(0);
  const Expr z = (-x.apply("aten.abs")).apply("aten.exp");
  const Expr negative_part = x.apply("aten.clamp", {c10::IValue(), c10::IValue(0.0)});
  const auto dtype = call.tensor(0).meta().dtype;
  return {(negative_part - z.apply("aten.log1p")).to(dtype).value, z.to(dtype).value};
}

std::vector<Value> mish(const Call& call) {
  const Expr x = call.wide(0);
  return call.result(x * x.apply("aten.softplus").apply("aten.tanh"));
}

std::vector<Value> addcmul(const Call& call) {
  if (!at::isFloatingType(call.tensor(0).meta().dtype)) return {};
  return call.result(call.wide(0) + call.wide(1) * call.number(3) * call.wide(2));
}

std::vector<Value> addcdiv(const Call& call) {
  if (!at::isFloatingType(call.tensor(0).meta().dtype)) return {};
  return call.result(call.wide(0) + call.wide(1) * call.number(3) / call.wide(2));
}

std::vector<Value> lerp_scalar(const Call& call) {
  if (!at::isFloatingType(call.tensor(0).meta().dtype)) return {};
  const Expr start = call.wide(0);
  const Expr end = call.wide(1);
  const double weight = call.number(2);
  // Counted from the nearer end, so that the weights 0 and 1 return the ends exactly.
  return call.result(std::abs(weight) < 0.5 ? start + (end - start) * weight : end - (end - start) * (1.0 - weight));
}

std::vector<Value> rsub_scalar(const Call& call) {
  const Expr x = call.tensor(0);
  const bool has_complex = call.constant(1).toScalar().isComplex() || call.constant(2).toScalar().isComplex();
  if (!at::isFloatingType(x.meta().dtype) || has_complex) return {};
  return {(-(x * call.number(2)) + call.number(1)).value};
}

// Draws as the kernel does: a contiguous bool tensor with the input's sizes.
std::vector<Value> native_dropout(const Call& call) {
  const bool draws = !call.constant(2).isBool() || call.flag(2);
  const Expr x = call.tensor(0);
  if (!draws || x.meta().numel() == 0) return {};
  const double keep = 1.0 - call.number(1);
  const Expr empty = x.apply("aten.new_zeros", {c10::IValue(x.meta().size_hints()), c10::IValue(at::kBool)});
  const Expr mask = empty.apply("aten.bernoulli.p", {c10::IValue(keep)});
  return {(x * mask * (keep == 0.0 ? 0.0 : 1.0 / keep)).value, mask.value};
}

}  // namespace

std::vector<Decomposition> activation_decompositions() {
  return {
      {"aten.silu", "activation", silu},
      {"aten.gelu", "activation", gelu},
      {"aten.hardtanh", "activation", hardtanh},
      {"aten.hardsigmoid", "activation", hardsigmoid},
      {"aten.hardswish", "activation", hardswish},
      {"aten.leaky_relu", "activation", leaky_relu},
      {"aten.elu", "activation", elu},
      {"aten.softplus", "activation", softplus},
      {"aten.log_sigmoid_forward", "activation", log_sigmoid},
      {"aten.mish", "activation", mish},
      {"aten.addcmul", "pointwise", addcmul},
      {"aten.addcdiv", "pointwise", addcdiv},
      {"aten.lerp.Scalar", "pointwise", lerp_scalar},
      {"aten.rsub.Scalar", "pointwise", rsub_scalar},
      {"aten.native_dropout", "dropout", native_dropout},
  };
}

}  // namespace diptych::detail
