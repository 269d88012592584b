// Losses that are not written in other operators. `reduction` is ATen's: 0 none, 1 mean, 2 sum.
#include <algorithm>

#include "diptych/xla/hlo/reduction_parts.h"

namespace diptych::detail {
namespace {

constexpr int64_t kLossNone = 0, kLossMean = 1;

std::vector<int64_t> every_dim(const Lowering& node, const Hlo& x) { return reduced_dims(node, kNoDims, x.dim()); }

std::vector<Hlo> bce_with_logits(const Lowering& node) {
  HloWriter& writer = node.writer();
  const Hlo x = node.converted(0, Lowering::wide(node.dtype()));
  const auto like_x = [&](size_t index) { return writer.broadcast_to(node.converted(index, x.dtype), x.sizes); };
  const Hlo target = like_x(1), zero = node.filled(0, x), one = node.filled(1, x);
  const Hlo decay = writer.unary("exponential", writer.unary("negate", writer.unary("abs", x)));
  Hlo log_sigmoid = writer.binary("subtract", writer.binary("minimum", x, zero), writer.unary("log_plus_one", decay));
  if (node.has_tensor(3)) {
    const Hlo gain = writer.binary("multiply", writer.binary("subtract", like_x(3), one), target);
    log_sigmoid = writer.binary("multiply", log_sigmoid, writer.binary("add", gain, one));
  }
  const Hlo linear = writer.binary("multiply", writer.binary("subtract", one, target), x);
  Hlo losses = writer.binary("subtract", linear, log_sigmoid);
  if (node.has_tensor(2)) losses = writer.binary("multiply", losses, like_x(2));
  const int64_t reduction = node.integer(4, kLossMean), count = count_over(x, every_dim(node, x));
  if (reduction != kLossNone) losses = sum_over(writer, losses, every_dim(node, x));
  if (reduction == kLossMean) losses = writer.binary("divide", losses, node.filled(static_cast<double>(count), losses));
  return {writer.convert(losses, node.dtype())};
}
// Operands of several dtypes, and sizes that grow the loss, have rules of their own in ATen.
bool has_plain_logits(const Lowering& node) {
  const TensorMeta& x = node.graph().meta(std::get<Value>(node.node().operands[0]));
  for (const size_t index : {1, 2, 3}) {
    if (!node.has_tensor(index)) continue;
    const TensorMeta& other = node.graph().meta(std::get<Value>(node.node().operands[index]));
    if (other.dtype != x.dtype || other.sizes.size() > x.sizes.size()) return false;
  }
  return at::isFloatingType(x.dtype);
}

// What a negative log-likelihood knows of each row, a position that has scores for all classes.
struct LossRows {
  Hlo is_ignored, index, weight;
};
LossRows loss_rows(const Lowering& node, size_t first, int64_t ignored, at::ScalarType dtype) {
  HloWriter& writer = node.writer();
  const Hlo target = node.converted(first + 1, at::kLong), zero = node.filled(0, target);
  const Hlo is_ignored = writer.compare("EQ", target, node.filled(ignored, target));
  const Hlo index = writer.select(is_ignored, zero, target);
  const Hlo weight = node.has_tensor(first + 2) ? writer.take(node.converted(first + 2, dtype), index, 0)
                                                : writer.constant(1, dtype, target.sizes);
  return {is_ignored, index, writer.select(is_ignored, node.filled(0, weight), weight)};
}
int64_t class_dim(const Hlo& scores) { return scores.dim() == 1 ? 0 : 1; }

// Each row's score of its class. Eager refuses classes out of range; here they are clamped.
Hlo picked_scores(HloWriter& writer, const Hlo& scores, const Hlo& index) {
  if (std::count(scores.sizes.begin(), scores.sizes.end(), 0) > 0)
    return constant_like(writer, 0, {"", scores.dtype, index.sizes});
  auto column = index.sizes;
  column.push_back(1);
  std::vector<Hlo> coordinates;
  for (int64_t dim = 0; dim < scores.dim(); ++dim) {
    const int64_t row_dim = dim - (dim > class_dim(scores) ? 1 : 0);
    const bool is_class = dim == class_dim(scores);
    coordinates.push_back(is_class ? writer.reshape(index, column) : writer.iota(at::kLong, column, row_dim));
  }
  return writer.gather_slices(scores, writer.concatenate(coordinates, index.dim()));
}

std::vector<Hlo> nll_forward(const Lowering& node) {
  HloWriter& writer = node.writer();
  const Hlo scores = node.converted(0, Lowering::wide(node.dtype()));
  const LossRows rows = loss_rows(node, 0, node.integer(4), scores.dtype);
  const Hlo weighted = writer.binary("multiply", picked_scores(writer, scores, rows.index), rows.weight);
  Hlo losses = writer.select(rows.is_ignored, node.filled(0, weighted), writer.unary("negate", weighted));
  const int64_t reduction = node.integer(3);
  Hlo total = sum_over(writer, rows.weight, every_dim(node, rows.weight));
  if (reduction == kLossNone && scores.dim() > 1) {
    return {writer.convert(losses, node.dtype()), writer.constant(0, node.dtype(1), node.sizes(1))};
  }
  losses = sum_over(writer, losses, every_dim(node, losses));
  if (reduction == kLossMean) losses = writer.binary("divide", losses, total);
  return {writer.convert(losses, node.dtype()), writer.convert(total, node.dtype(1))};
}

// Each row has its gradient in the column of its class.
std::vector<Hlo> nll_backward(const Lowering& node) {
  HloWriter& writer = node.writer();
  const auto dtype = Lowering::wide(node.dtype());
  const LossRows rows = loss_rows(node, 1, node.integer(5), dtype);
  Hlo gradient = node.converted(0, dtype);
  if (node.integer(4) == kLossMean)
    gradient = writer.binary("divide", gradient, writer.reshape(node.converted(6, dtype), {}));
  const Hlo spread = writer.broadcast_to(gradient, rows.weight.sizes);
  const Hlo weighted = writer.unary("negate", writer.binary("multiply", rows.weight, spread));
  const Hlo each = writer.select(rows.is_ignored, node.filled(0, weighted), weighted);
  const Hlo scores{"", dtype, node.sizes()};
  const int64_t dim = class_dim(scores);
  const Hlo is_class =
      writer.compare("EQ", writer.iota(at::kLong, scores.sizes, dim), spread_back(writer, rows.index, scores, {dim}));
  const Hlo result = writer.select(is_class, spread_back(writer, each, scores, {dim}), node.filled(0, scores));
  return {writer.convert(result, node.dtype())};
}

constexpr LoweringRow kLossRows[] = {
    {"aten.binary_cross_entropy_with_logits", bce_with_logits, has_plain_logits},
    {"aten.nll_loss_forward", nll_forward},
    {"aten.nll_loss_backward", nll_backward},
    {"aten.nll_loss2d_forward", nll_forward},
    {"aten.nll_loss2d_backward", nll_backward},
};

}  // namespace

std::span<const LoweringRow> loss_lowerings() { return kLossRows; }

}  // namespace diptych::detail
