// Losses and their gradients. `reduction` is ATen's: 0 none, 1 mean, 2 sum.
#include "diptych/ops/decompositions.h"

namespace diptych::detail {
namespace {

constexpr int64_t kNone = 0;
constexpr int64_t kMeanReduction = 1;

Expr sum_all(Expr x) { return x.apply("aten.sum"); }

std::vector<Value> reduced(const Call& call, Expr losses, size_t reduction) {
  if (call.integer(reduction) == kNone) return call.result(losses);
  const Expr total = call.integer(reduction) == kMeanReduction ? losses.apply("aten.mean") : sum_all(losses);
  return call.result(total);
}

// The incoming gradient for each element; for a mean it is divided by the number of elements.
Expr spread_gradient(const Call& call, size_t reduction, size_t input) {
  const Expr g = call.wide(0);
  const int64_t count = call.tensor(input).meta().numel();
  return call.integer(reduction) == kMeanReduction && count > 0 ? g / static_cast<double>(count) : g;
}

std::vector<Value> mse_loss(const Call& call) {
  const Expr d = call.wide(0) - call.wide(1);
  return reduced(call, d * d, 2);
}

std::vector<Value> mse_loss_backward(const Call& call) {
  return call.result((call.wide(1) - call.wide(2)) * 2.0 * spread_gradient(call, 3, 1));
}

std::vector<Value> smooth_l1_loss(const Call& call) {
  const double beta = call.number(3);
  const Expr distance = (call.wide(0) - call.wide(1)).apply("aten.abs");
  if (beta == 0) return reduced(call, distance, 2);
  return reduced(call, where(distance < beta, distance * distance * (0.5 / beta), distance - 0.5 * beta), 2);
}

std::vector<Value> smooth_l1_loss_backward(const Call& call) {
  const double beta = call.number(4);
  const Expr d = call.wide(1) - call.wide(2);
  const Expr sign = d.apply("aten.sign");
  if (beta == 0) return call.result(sign * spread_gradient(call, 3, 1));
  return call.result(where(d.apply("aten.abs") < beta, d / beta, sign) * spread_gradient(call, 3, 1));
}

std::vector<Value> huber_loss(const Call& call) {
  const double delta = call.number(3);
  const Expr distance = (call.wide(0) - call.wide(1)).apply("aten.abs");
  return reduced(call, where(distance <= delta, distance * distance * 0.5, (distance - 0.5 * delta) * delta), 2);
}

std::vector<Value> huber_loss_backward(const Call& call) {
  const double delta = call.number(4);
  const Expr d = call.wide(1) - call.wide(2);
  const Expr slope = d.apply("aten.clamp", {c10::IValue(-delta), c10::IValue(delta)});
  return call.result(slope * spread_gradient(call, 3, 1));
}

// Logarithms no lower than -100, as the kernel has them.
Expr bounded_log(Expr log) { return log.apply("aten.clamp", {c10::IValue(-100.0)}); }

std::vector<Value> binary_cross_entropy(const Call& call) {
  const Expr x = call.wide(0);
  const Expr target = call.wide(1);
  const Expr positive = target * bounded_log(x.apply("aten.log"));
  const Expr negative = (1.0 - target) * bounded_log((-x).apply("aten.log1p"));
  const Expr losses = -(positive + negative);
  const auto weight = call.optional_tensor(2);
  return reduced(call, weight ? losses * *weight : losses, 3);
}

std::vector<Value> binary_cross_entropy_backward(const Call& call) {
  constexpr double kSmallest = 1e-12F;  // a float in the kernel, whatever the dtype
  const Expr x = call.wide(1);
  const Expr variance = ((1.0 - x) * x).apply("aten.clamp", {c10::IValue(kSmallest)});
  const Expr slope = (x - call.wide(2)) / variance * spread_gradient(call, 4, 1);
  const auto weight = call.optional_tensor(3);
  return call.result(weight ? slope * *weight : slope);
}

/// The pieces of a negative log-likelihood over [batch, classes]: which class each row has, and what the row weighs.
struct Rows {
  Expr is_ignored;  ///< [batch]
  Expr index;       ///< [batch], 0 where ignored
  Expr weight;      ///< [batch], 0 where ignored
};

Rows rows_of(const Call& call, size_t input, size_t target, size_t weight, size_t ignore_index) {
  const Expr classes = call.tensor(target);
  const Expr is_ignored = classes.apply("aten.eq.Scalar", {call.constant(ignore_index)});
  const Expr index = where(is_ignored, 0.0, classes);
  const auto weights = call.optional_tensor(weight);
  const Expr each = weights ? weights->apply("aten.index_select", {c10::IValue(0), index.value})
                            : number_like(call.tensor(input), 1.0);
  return {is_ignored, index, where(is_ignored, 0.0, each)};
}

std::vector<Value> nll_loss_forward(const Call& call) {
  const Expr x = call.tensor(0);
  if (x.rank() != 2) return {};
  const auto rows = rows_of(call, 0, 1, 2, 4);
  const Expr picked =
      x.apply("aten.gather", {c10::IValue(1), rows.index.apply("aten.unsqueeze", {c10::IValue(1)}).value})
          .apply("aten.squeeze.dim", {c10::IValue(1)});
  const Expr losses = where(rows.is_ignored, 0.0, -(picked * rows.weight));
  const Expr total = sum_all(rows.weight);
  if (call.integer(3) == kNone) {
    return {losses.value, x.apply("aten.new_full", {c10::IValue(std::vector<int64_t>{}), c10::IValue(0.0)}).value};
  }
  const Expr sum = sum_all(losses);
  return {call.integer(3) == kMeanReduction ? (sum / total).value : sum.value, total.value};
}

// Each row has its gradient in the column of its class.
std::vector<Value> nll_loss_backward(const Call& call) {
  const Expr x = call.tensor(1);
  if (x.rank() != 2) return {};
  const auto rows = rows_of(call, 1, 2, 3, 5);
  const bool is_mean = call.integer(4) == kMeanReduction;
  const Expr g = is_mean ? call.tensor(0) / call.tensor(6) : call.tensor(0);
  const Expr per_row = where(rows.is_ignored, 0.0, -(rows.weight * g)).apply("aten.unsqueeze", {c10::IValue(1)});
  const Value columns = call.emitter().call(
      "aten.arange", {c10::IValue(x.size(1)), c10::IValue(at::kLong), c10::IValue(), c10::IValue(x.meta().device)});
  const Expr is_class = rows.index.apply("aten.unsqueeze", {c10::IValue(1)}).apply("aten.eq.Tensor", {columns});
  return {where(is_class, per_row, 0.0).value};
}

}  // namespace

std::vector<Decomposition> loss_decompositions() {
  return {
      {"aten.mse_loss", "loss", mse_loss},
      {"aten.mse_loss_backward", "loss", mse_loss_backward},
      {"aten.smooth_l1_loss", "loss", smooth_l1_loss},
      {"aten.smooth_l1_loss_backward", "loss", smooth_l1_loss_backward},
      {"aten.huber_loss", "loss", huber_loss},
      {"aten.huber_loss_backward", "loss", huber_loss_backward},
      {"aten.binary_cross_entropy", "loss", binary_cross_entropy},
      {"aten.binary_cross_entropy_backward", "loss", binary_cross_entropy_backward},
      {"aten.nll_loss_forward", "loss", nll_loss_forward},
      {"aten.nll_loss_backward", "loss", nll_loss_backward},
  };
}

}  // namespace diptych::detail
