// Elements and rows read by position. An index outside is eager's error; here it is clamped, as XLA does.
#include <algorithm>

#include "diptych/xla/hlo/index_positions.h"

namespace diptych::detail {
namespace {

std::vector<Hlo> embedding(const Lowering& node) { return {node.writer().take(node.tensor(0), node.tensor(1), 0)}; }

std::vector<Hlo> index_select(const Lowering& node) {
  HloWriter& writer = node.writer();
  const Hlo x = at_least_1d(writer, node.tensor(0)), index = at_least_1d(writer, node.tensor(2));
  return {writer.reshape(writer.take(x, index, Lowering::wrap(node.integer(1), x.dim())), node.sizes())};
}

std::vector<Hlo> gather_along(const Lowering& node) {
  HloWriter& writer = node.writer();
  const Hlo x = at_least_1d(writer, node.tensor(0)), index = at_least_1d(writer, node.tensor(2));
  const Hlo coordinates = coordinates_along(writer, index, Lowering::wrap(node.integer(1), x.dim()));
  return {writer.reshape(writer.gather_slices(x, coordinates), node.sizes())};
}

std::vector<Hlo> take_flat(const Lowering& node) {
  HloWriter& writer = node.writer();
  const Hlo x = node.tensor(0), index = node.tensor(1);
  const int64_t count = elements_of(x.sizes);
  return {writer.take(writer.reshape(x, {count}), wrap_indices(writer, index, count), 0)};
}

Hlo elements_at(HloWriter& writer, const Hlo& x, const std::vector<Hlo>& indices) {
  const AdvancedIndex plan = advanced_index(writer, x, indices);
  const Hlo rows = writer.gather_slices(writer.transpose(x, plan.operand_order), plan.coordinates);
  return writer.transpose(rows, plan.result_order);
}
std::vector<Hlo> index_by_tensors(const Lowering& node) {
  return {elements_at(node.writer(), node.tensor(0), node.tensors(1))};
}

// Where the mask is not set, the number takes the place of what is read, wherever that stands.
std::vector<Hlo> masked_index(const Lowering& node) {
  HloWriter& writer = node.writer();
  const Hlo x = elements_at(writer, node.tensor(0), node.tensors(2));
  return {writer.select(writer.broadcast_to(node.tensor(1), node.sizes()), x, node.filled(node.scalar(3), x))};
}
bool reads_under_mask(const Lowering& node) {
  const TensorMeta *const x = operand_meta(node, 0), *const mask = operand_meta(node, 1);
  return x != nullptr && x->numel() > 0 && mask != nullptr && mask->dtype == at::kBool && has_integer_indices<2>(node);
}

// The coordinates of elements by their number in a contiguous tensor, [count, dimensions].
Hlo unraveled(HloWriter& writer, const Hlo& numbers, const std::vector<int64_t>& sizes) {
  const auto strides = contiguous_strides_of(sizes);
  std::vector<Hlo> columns;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const auto filled = [&](int64_t number) { return writer.constant(number, numbers.dtype, numbers.sizes); };
    const Hlo quotient = writer.binary("divide", numbers, filled(strides[i]));
    columns.push_back(writer.reshape(writer.binary("remainder", quotient, filled(sizes[i])), {numbers.sizes[0], 1}));
  }
  return writer.concatenate(columns, 1);
}
// Elements that are not zero write their number at their place among them; what is beyond the result is skipped.
std::vector<Hlo> nonzero_static(const Lowering& node) {
  HloWriter& writer = node.writer();
  const Hlo x = node.tensor(0), zeros = node.filled(0, x);
  const int64_t count = elements_of(x.sizes), wanted = node.integer(1);
  const auto list = [&](int64_t number, int64_t size) { return writer.constant(number, at::kLong, {size}); };
  const Hlo fill = writer.constant(node.integer(2, -1), at::kLong, node.sizes());
  if (count == 0) return {fill};
  const Hlo flags = writer.reshape(writer.compare("NE", x, zeros), {count});
  const Hlo place = writer.binary("subtract", running_count(writer, flags), list(1, count));
  const Hlo index = writer.select(flags, place, list(-1, count)), own = writer.iota(at::kLong, {count}, 0);
  const Hlo numbers = writer.scatter_along("", list(-1, wanted), 0, index, own);
  const Hlo is_filled = writer.broadcast(writer.compare("LT", numbers, list(0, wanted)), node.sizes(), {0});
  return {writer.select(is_filled, fill, unraveled(writer, numbers, x.sizes))};
}

// Eager's places of a tensor without dimensions have strides of their own.
bool has_places(const Lowering& node) { return node.result().numel() > 0; }

constexpr LoweringRow kIndexingRows[] = {
    {"aten.embedding", embedding},
    {"aten.index_select", index_select},
    {"aten.gather", gather_along},
    {"aten.take", take_flat},
    {"aten.index.Tensor", index_by_tensors, has_integer_indices<1>},
    {"aten.nonzero_static", nonzero_static, has_places},
    {"aten._unsafe_masked_index", masked_index, reads_under_mask},
    {"aten._unsafe_index.Tensor", index_by_tensors, has_integer_indices<1>},
};

}  // namespace

std::span<const LoweringRow> indexing_lowerings() { return kIndexingRows; }

}  // namespace diptych::detail
