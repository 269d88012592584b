// Losses and their gradients. `reduction` is ATen's: 0 none, 1 mean, 2 sum.
#include <ATen/EmptyTensor.h>
#include <ATen/ops/result_type.h>

#include <algorithm>

#include "diptych/ops/checked_values.h"
#include "diptych/ops/decompositions.h"

namespace diptych::detail {
namespace {

constexpr int64_t kNone = 0;
constexpr int64_t kMeanReduction = 1;

Expr sum_all(Expr x) { return x.apply("aten.sum"); }

Expr reduced(const Call& call, Expr losses, size_t reduction) {
  if (call.integer(reduction) == kNone) return losses;
  return call.integer(reduction) == kMeanReduction ? losses.apply("aten.mean") : sum_all(losses);
}

// Returns one result, cast to the dtype of operand `input`, which need not be the first one's.
std::vector<Value> like_operand(const Call& call, Expr value, size_t input) {
  return {value.to(call.tensor(input).meta().dtype).value};
}

// The dtype that two operands promote to: their difference has it, unless both are halves.
at::ScalarType promoted(Expr left, Expr right) {
  const auto meta_of = [](Expr x) {
    return at::Tensor(at::detail::empty_meta(x.meta().size_hints(), x.meta().dtype, at::MemoryFormat::Contiguous));
  };
  return left.meta().dtype == right.meta().dtype ? left.meta().dtype : at::result_type(meta_of(left), meta_of(right));
}

// A loss of two operands that may have two dtypes; whole numbers have none.
std::vector<Value> reduced_promoted(const Call& call, Expr losses) {
  const auto dtype = promoted(call.tensor(0), call.tensor(1));
  if (!at::isFloatingType(dtype) && !at::isComplexType(dtype)) return {};
  // Elements are rounded before they are summed, and overflow in halves.
  const Expr rounded = at::isReducedFloatingType(dtype) ? losses.to(dtype).to(losses.meta().dtype) : losses;
  return {reduced(call, rounded, 2).to(dtype).value};
}

// `values`, or an error with this message if an element of them is refused.
Expr checked(Expr values, Expr is_refused, std::string_view message, bool is_index) {
  return values.apply("diptych.checked", {is_refused.value, c10::IValue(std::string(message)), c10::IValue(is_index)});
}

// The incoming gradient for each element, as precise as the input; for a mean it is divided by the number of elements.
Expr spread_gradient(const Call& call, size_t reduction, size_t input) {
  const auto dtype = c10::promoteTypes(call.wide(0).meta().dtype, call.wide(input).meta().dtype);
  const Expr g = call.wide(0).to(dtype);
  const int64_t count = call.tensor(input).meta().numel();
  return call.integer(reduction) == kMeanReduction && count > 0 ? g / static_cast<double>(count) : g;
}

std::vector<Value> mse_loss(const Call& call) {
  const Expr d = call.wide(0) - call.wide(1);
  return reduced_promoted(call, d * d);
}

std::vector<Value> mse_loss_backward(const Call& call) {
  return like_operand(call, (call.wide(1) - call.wide(2)) * 2.0 * spread_gradient(call, 3, 1), 1);
}

std::vector<Value> smooth_l1_loss(const Call& call) {
  const double beta = call.number(3);
  const Expr distance = (call.wide(0) - call.wide(1)).apply("aten.abs");
  if (beta == 0) return reduced_promoted(call, distance);
  return reduced_promoted(call, where(distance < beta, distance * distance * (0.5 / beta), distance - 0.5 * beta));
}

std::vector<Value> smooth_l1_loss_backward(const Call& call) {
  const double beta = call.number(4);
  const Expr d = call.wide(1) - call.wide(2);
  if (beta == 0) return like_operand(call, d.apply("aten.sign") * spread_gradient(call, 3, 1), 1);
  const Expr slope = where(d <= -beta, -1.0, where(d >= beta, 1.0, d / beta));  // of NaN it is NaN
  return like_operand(call, slope * spread_gradient(call, 3, 1), 1);
}

std::vector<Value> huber_loss(const Call& call) {
  const double delta = call.number(3);
  const Expr distance = (call.wide(0) - call.wide(1)).apply("aten.abs");
  const Expr losses = where(distance <= delta, distance * distance * 0.5, (distance - 0.5 * delta) * delta);
  return like_operand(call, reduced(call, losses, 2), 0);
}

std::vector<Value> huber_loss_backward(const Call& call) {
  const double delta = call.number(4);
  const Expr d = call.wide(1) - call.wide(2);
  const Expr slope = d.apply("aten.clamp", {c10::IValue(-delta), c10::IValue(delta)});
  return like_operand(call, slope * spread_gradient(call, 3, 1), 1);
}

// Logarithms no lower than -100, as the kernel has them.
Expr bounded_log(Expr log) { return log.apply("aten.clamp", {c10::IValue(-100.0)}); }

/// The operands of a binary cross-entropy as the kernel takes them: without dimensions of one, by which inputs of
/// [n, 1] go with targets of [n]. Where all sizes agree they are as they are.
class Entropy {
 public:
  Entropy(const Call& call, size_t input, size_t target, size_t weight)
      : call_(call), sizes_(sizes_of(call.tensor(input))), weight_(call.optional_tensor(weight)) {
    is_plain_ = sizes_of(call.tensor(target)) == sizes_;
  }

  Expr operand(size_t i) const {
    const Expr x = call_.wide(i);
    auto sizes = sizes_of(x);
    if (is_plain_) return x;
    sizes.erase(std::remove(sizes.begin(), sizes.end(), 1), sizes.end());
    return x.view(sizes);
  }

  /// What was computed of the operands, with the input's sizes and times the weight; nothing where the kernel refuses.
  std::optional<Expr> result(Expr x) const {
    if (x.meta().numel() != c10::multiply_integers(sizes_)) return std::nullopt;
    Expr whole = is_plain_ ? x : x.view(sizes_);
    if (weight_) whole = whole * *weight_;
    return sizes_of(whole) == sizes_ ? std::optional(whole) : std::nullopt;
  }

 private:
  static std::vector<int64_t> sizes_of(Expr x) { return x.meta().size_hints(); }

  const Call& call_;
  std::vector<int64_t> sizes_;
  std::optional<Expr> weight_;
  bool is_plain_ = true;
};

// As NaN is, too.
Expr is_outside_of_one(Expr x) {
  return (x >= 0.0).apply("aten.logical_and", {(x <= 1.0).value}).apply("aten.logical_not");
}

std::vector<Value> binary_cross_entropy(const Call& call) {
  const Entropy entropy(call, 0, 1, 2);
  Expr x = entropy.operand(0), target = entropy.operand(1);
  x = checked(x, is_outside_of_one(x), "all elements of input should be between 0 and 1", /*is_index=*/false);
  target = checked(target, is_outside_of_one(target), "all elements of target should be between 0 and 1",
                   /*is_index=*/false);
  const Expr positive = target * bounded_log(x.apply("aten.log"));
  const Expr negative = (1.0 - target) * bounded_log((-x).apply("aten.log1p"));
  const auto losses = entropy.result(-(positive + negative));
  return losses ? call.result(reduced(call, *losses, 3)) : std::vector<Value>{};
}

std::vector<Value> binary_cross_entropy_backward(const Call& call) {
  constexpr double kSmallest = 1e-12F;  // a float in the kernel, whatever the dtype
  const Entropy entropy(call, 1, 2, 3);
  const Expr x = entropy.operand(1);
  const Expr variance = ((1.0 - x) * x).apply("aten.clamp", {c10::IValue(kSmallest)});
  const auto slope = entropy.result((x - entropy.operand(2)) / variance);
  return slope ? like_operand(call, *slope * spread_gradient(call, 4, 1), 1) : std::vector<Value>{};
}

/// The pieces of a negative log-likelihood over [batch, classes]: which class each row has, and what the row weighs.
struct Rows {
  Expr is_ignored;  ///< [batch]
  Expr index;       ///< [batch], 0 where ignored
  Expr weight;      ///< [batch], 0 where ignored
};

Rows rows_of(const Call& call, size_t input, size_t target, size_t weight, size_t ignore_index, bool is_forward) {
  const Expr classes = call.tensor(target);
  const Expr is_ignored = classes.apply("aten.eq.Scalar", {call.constant(ignore_index)});
  Expr index = where(is_ignored, 0.0, classes);
  if (is_forward) {
    const Expr is_outside = (index < 0.0) | (index >= static_cast<double>(call.tensor(input).size(1)));
    index = checked(index, is_outside, "Target {} is out of bounds.", /*is_index=*/true);
  }
  const auto weights = call.optional_tensor(weight);
  const Expr each = weights ? weights->apply("aten.index_select", {c10::IValue(0), index.value})
                            : number_like(call.tensor(input), 1.0);
  return {is_ignored, index, where(is_ignored, 0.0, each)};
}

std::vector<Value> nll_loss_forward(const Call& call) {
  const Expr x = call.tensor(0);
  if (x.rank() != 2) return {};
  const auto rows = rows_of(call, 0, 1, 2, 4, /*is_forward=*/true);
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
  const auto rows = rows_of(call, 1, 2, 3, 5, /*is_forward=*/false);
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
  register_checked_values();
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
