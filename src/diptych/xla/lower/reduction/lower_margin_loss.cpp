// Losses by margins, and their gradients. `reduction` is ATen's: 0 none, 1 mean, 2 sum.
#include "diptych/xla/hlo/hlo_term.h"
#include "diptych/xla/hlo/index_positions.h"
#include "diptych/xla/hlo/reduction_parts.h"

namespace diptych::detail {
namespace {

constexpr int64_t kMarginNone = 0, kMarginMean = 1;

// log(1 + exp(-y x)), where y is 1 or -1.
HloTerm soft_margin(const Lowering& node, size_t x, size_t target) {
  const HloTerm term(node.writer(), node.converted(x, Lowering::wide(node.dtype())));
  return -(term * term.with(node.converted(target, term.dtype())));
}
std::vector<Hlo> soft_margin_loss(const Lowering& node) {
  HloWriter& writer = node.writer();
  const Hlo losses = soft_margin(node, 0, 1).exp().log1p().value();
  const int64_t reduction = node.integer(2, kMarginMean);
  if (reduction == kMarginNone) return {writer.convert(losses, node.dtype())};
  const Hlo total = sum_over(writer, losses, reduced_dims(node, kNoDims, losses.dim()));
  const double count = reduction == kMarginMean ? static_cast<double>(elements_of(losses.sizes)) : 1;
  return as_result(node, HloTerm(writer, total) / count);
}
std::vector<Hlo> soft_margin_loss_backward(const Lowering& node) {
  const HloTerm z = soft_margin(node, 1, 2).exp();
  const HloTerm target = z.with(node.converted(2, z.dtype())), gradient = z.with(node.spread(0, z.dtype()));
  const double scale = node.integer(3) == kMarginMean ? 1 / static_cast<double>(node.result().numel()) : 1;
  return as_result(node, target * z * -scale / (z + 1.0) * gradient);
}
template <size_t kX>
bool has_alike_operands(const Lowering& node) {
  const TensorMeta *const x = operand_meta(node, kX), *const target = operand_meta(node, kX + 1);
  return x != nullptr && target != nullptr && x->sizes == target->sizes && x->dtype == target->dtype &&
         at::isFloatingType(x->dtype);
}

/// Scores of classes [rows, classes], in the dtype that margins are computed in.
struct MarginScores {
  Hlo x;
  int64_t rows, classes;
};
MarginScores margin_scores(const Lowering& node, size_t operand) {
  const Hlo x = node.converted(operand, Lowering::wide(node.dtype()));
  const int64_t classes = x.dim() == 0 ? 1 : x.sizes.back(), rows = elements_of(x.sizes) / classes;
  return {node.writer().reshape(x, {rows, classes}), rows, classes};
}

// Rows of losses as the result: summed, or divided by their number. ATen sums in double.
std::vector<Hlo> reduced_rows(const Lowering& node, const Hlo& losses, int64_t reduction, size_t rows) {
  HloWriter& writer = node.writer();
  if (reduction == kMarginNone) return {writer.convert(writer.reshape(losses, node.sizes()), node.dtype())};
  const HloTerm total(writer, sum_over(writer, losses, {0}));
  return as_result(node, reduction == kMarginMean ? total / static_cast<double>(rows) : total);
}
// The gradient of each row, as a column, with the quotients that the forward pass took.
HloTerm row_gradient(const Lowering& node, const MarginScores& scores, int64_t reduction) {
  HloWriter& writer = node.writer();
  const Hlo given = node.converted(0, scores.x.dtype);
  const Hlo column = writer.broadcast_to(
      reduction == kMarginNone ? writer.reshape(given, {scores.rows, 1}) : writer.reshape(given, {}), {scores.rows, 1});
  const auto count = static_cast<double>(scores.classes * (reduction == kMarginMean ? scores.rows : 1));
  return HloTerm(writer, writer.broadcast(column, scores.x.sizes, {0, 1})) * (1 / count);
}

/// The margin of each class to the row's own class.
struct ClassMargins {
  HloTerm is_own, is_open, distance, weight;
};
ClassMargins class_margins(const Lowering& node, const MarginScores& scores, size_t target, size_t margin) {
  HloWriter& writer = node.writer();
  const Hlo own = writer.reshape(node.converted(target, at::kLong), {scores.rows});
  const HloTerm x(writer, scores.x), position = x.with(writer.iota(at::kLong, scores.x.sizes, 1));
  const HloTerm is_own = position.equals(x.with(writer.broadcast(own, scores.x.sizes, {0})));
  const Hlo picked = sum_over(writer, is_own.choose(x, 0.0).value(), {1});
  const HloTerm distance = node.number(margin, 1) - x.with(writer.broadcast(picked, scores.x.sizes, {0})) + x;
  HloTerm weight = x.like(1);
  if (node.has_tensor(margin + 1)) {
    const Hlo of_row = writer.take(node.converted(margin + 1, scores.x.dtype), own, 0);
    weight = x.with(writer.broadcast(of_row, scores.x.sizes, {0}));
  }
  return {is_own, (distance > 0.0) & !is_own, distance, weight};
}
std::vector<Hlo> multi_margin_loss(const Lowering& node) {
  HloWriter& writer = node.writer();
  const MarginScores scores = margin_scores(node, 0);
  const ClassMargins margins = class_margins(node, scores, 1, 3);
  const HloTerm powered = node.integer(2, 1) == 1 ? margins.distance : margins.distance * margins.distance;
  const HloTerm each = margins.is_open.choose(powered * margins.weight, 0.0).to(at::kDouble);
  const HloTerm sums = each.with(sum_over(writer, each.value(), {1})) / static_cast<double>(scores.classes);
  return reduced_rows(node, sums.value(), node.integer(5, kMarginMean), scores.rows);
}
// What the other classes take, the own class gives.
std::vector<Hlo> multi_margin_loss_backward(const Lowering& node) {
  HloWriter& writer = node.writer();
  const MarginScores scores = margin_scores(node, 1);
  const ClassMargins margins = class_margins(node, scores, 2, 4);
  const HloTerm gradient = row_gradient(node, scores, node.integer(6, kMarginMean)) * margins.weight;
  const HloTerm slope = node.integer(3) == 1 ? gradient : gradient * margins.distance * 2.0;
  const HloTerm taken = margins.is_open.choose(slope, 0.0);
  const HloTerm given = taken.with(writer.broadcast(sum_over(writer, taken.value(), {1}), taken.value().sizes, {0}));
  return as_result(node, taken.with(writer.reshape(margins.is_own.choose(-given, taken).value(), node.sizes())));
}

/// The targets of each row, [rows, targets, classes]: those before the first negative number count.
struct RowTargets {
  HloTerm is_counted, is_target;  ///< whether a target counts; whether it is that class
};
RowTargets row_targets(const Lowering& node, const MarginScores& scores, size_t operand) {
  HloWriter& writer = node.writer();
  const std::vector<int64_t> cube{scores.rows, scores.classes, scores.classes};
  const Hlo target = writer.reshape(node.converted(operand, at::kLong), {scores.rows, scores.classes});
  const HloTerm by_class(writer, writer.broadcast(target, cube, {0, 1}));
  const HloTerm by_later(writer, writer.broadcast(target, cube, {0, 2}));
  const HloTerm row = by_class.with(writer.iota(at::kLong, cube, 1)),
                last = by_class.with(writer.iota(at::kLong, cube, 2));
  const HloTerm is_end_before = (by_later < 0.0) & (last <= row);
  const Hlo has_ended = writer.reduce("or", is_end_before.value(), writer.constant(false, at::kBool), {2});
  const HloTerm is_counted = !by_class.with(writer.broadcast(has_ended, cube, {0, 1}));
  return {is_counted, is_counted & by_class.equals(last)};
}
// 1 - x[target] + x[class] for each target that counts and each class that is none, where it is positive.
HloTerm open_margins(const MarginScores& scores, const RowTargets& targets, const HloTerm& is_target_class) {
  HloWriter& writer = targets.is_counted.writer();
  const auto& cube = targets.is_counted.value().sizes;
  const HloTerm x(writer, writer.broadcast(scores.x, cube, {0, 2}));
  const Hlo picked = sum_over(writer, targets.is_target.choose(x, 0.0).value(), {2});
  const HloTerm distance = 1.0 - x.with(writer.broadcast(picked, cube, {0, 1})) + x;
  return (targets.is_counted & !is_target_class & (distance > 0.0)).choose(distance, 0.0);
}
Hlo target_classes(HloWriter& writer, const RowTargets& targets) {
  return writer.reduce("or", targets.is_target.value(), writer.constant(false, at::kBool), {1});
}
std::vector<Hlo> multilabel_margin_loss(const Lowering& node) {
  HloWriter& writer = node.writer();
  const MarginScores scores = margin_scores(node, 0);
  const RowTargets targets = row_targets(node, scores, 1);
  const Hlo classes = target_classes(writer, targets);
  const HloTerm spread = targets.is_target.with(writer.broadcast(classes, targets.is_target.value().sizes, {0, 2}));
  const HloTerm margins = open_margins(scores, targets, spread).to(at::kDouble);
  const HloTerm sums = margins.with(sum_over(writer, margins.value(), {1, 2})) / static_cast<double>(scores.classes);
  const auto result = reduced_rows(node, sums.value(), node.integer(2), scores.rows);
  return {result[0], writer.convert(writer.reshape(classes, node.sizes(1)), node.dtype(1))};
}
std::vector<Hlo> multilabel_margin_loss_backward(const Lowering& node) {
  HloWriter& writer = node.writer();
  const MarginScores scores = margin_scores(node, 1);
  const RowTargets targets = row_targets(node, scores, 2);
  const auto& cube = targets.is_target.value().sizes;
  const Hlo classes = writer.reshape(node.converted(4, at::kBool), {scores.rows, scores.classes});
  const HloTerm margins =
      open_margins(scores, targets, targets.is_target.with(writer.broadcast(classes, cube, {0, 2})));
  const HloTerm is_open = margins.differs(0.0), hits = is_open.to(scores.x.dtype);
  const Hlo taken = sum_over(writer, hits.value(), {1});
  const HloTerm of_target = hits.with(writer.broadcast(sum_over(writer, hits.value(), {2}), cube, {0, 1}));
  const Hlo given = sum_over(writer, targets.is_target.choose(of_target, 0.0).value(), {1});
  const HloTerm gradient = row_gradient(node, scores, node.integer(3));
  const HloTerm result = gradient * (hits.with(taken) - hits.with(given));
  return as_result(node, result.with(writer.reshape(result.value(), node.sizes())));
}
// Every target is compared with every class.
template <size_t kX>
bool has_few_classes(const Lowering& node) {
  const auto sizes = operand_meta(node, kX)->size_hints();
  return has_real_float_result(node) && (sizes.empty() || sizes.back() <= 256) && elements_of(sizes) > 0;
}
template <size_t kX>
bool has_classes(const Lowering& node) {
  return has_real_float_result(node) && elements_of(operand_meta(node, kX)->size_hints()) > 0;
}

constexpr LoweringRow kMarginLossRows[] = {
    {"aten.soft_margin_loss", soft_margin_loss, has_alike_operands<0>},
    {"aten.soft_margin_loss_backward", soft_margin_loss_backward, has_alike_operands<1>},
    {"aten.multi_margin_loss", multi_margin_loss, has_classes<0>},
    {"aten.multi_margin_loss_backward", multi_margin_loss_backward, has_classes<1>},
    {"aten.multilabel_margin_loss_forward", multilabel_margin_loss, has_few_classes<0>},
    {"aten.multilabel_margin_loss_backward", multilabel_margin_loss_backward, has_few_classes<1>},
};

}  // namespace

std::span<const LoweringRow> margin_loss_lowerings() { return kMarginLossRows; }

}  // namespace diptych::detail
