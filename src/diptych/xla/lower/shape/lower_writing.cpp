// Copies of a tensor in which a part is replaced: index_put, and what functionalization makes of writes to views.
#include <algorithm>

#include "diptych/xla/hlo/index_positions.h"

namespace diptych::detail {
namespace {

// The only tensor of a list of indices; none if there are several.
Value only_index(const Lowering& node) {
  const auto* list = std::get_if<ValueList>(&node.node().operands[1]);
  Value found;
  if (list == nullptr) return found;
  for (const Value index : *list) {
    if (!index) continue;
    if (found) return {};
    found = index;
  }
  return found;
}

// One number at the elements of a mask needs no positions.
bool is_number_under_mask(const Lowering& node) {
  const Value index = only_index(node);
  const TensorMeta* const values = operand_meta(node, 2);
  return index && node.graph().meta(index).dtype == at::kBool && values != nullptr && values->numel() == 1 &&
         values->is_static();
}
bool writes_by_index(const Lowering& node) { return is_number_under_mask(node) || has_integer_indices<1>(node); }

std::vector<Hlo> put_number_under_mask(const Lowering& node) {
  HloWriter& writer = node.writer();
  const Hlo x = node.tensor(0);
  const auto indices = node.tensors(1);
  const auto mask = std::find_if(indices.begin(), indices.end(), [](const Hlo& index) { return !index.name.empty(); });
  std::vector<int64_t> dims;
  for (int64_t i = 0; i < mask->dim(); ++i) dims.push_back(mask - indices.begin() + i);
  const Hlo value = writer.broadcast(writer.reshape(node.converted(2, x.dtype), {}), x.sizes, {});
  const Hlo written = node.flag(3) ? writer.binary("add", x, value) : value;
  return {writer.select(writer.broadcast(*mask, x.sizes, dims), written, x)};
}

// With equal indices and no sum, eager promises none of the values, and neither does XLA.
std::vector<Hlo> put_at(const Lowering& node, const std::vector<Hlo>& indices, Hlo values, bool sums) {
  HloWriter& writer = node.writer();
  const Hlo x = node.converted(0, sums ? Lowering::wide(node.dtype()) : node.dtype());
  const AdvancedIndex plan = advanced_index(writer, x, indices);
  const Hlo operand = writer.transpose(x, plan.operand_order);
  const auto depth = plan.coordinates.sizes.back();
  std::vector<int64_t> rows{plan.coordinates.sizes.begin(), plan.coordinates.sizes.end() - 1}, result;
  rows.insert(rows.end(), operand.sizes.begin() + depth, operand.sizes.end());
  if (elements_of(rows) == 0) return {node.tensor(0)};
  for (const int64_t dim : plan.result_order) result.push_back(rows[dim]);
  values = writer.convert(values, x.dtype);
  // Leading dimensions of size one that the result does not have.
  while (values.dim() > static_cast<int64_t>(result.size()))
    values = writer.reshape(values, {values.sizes.begin() + 1, values.sizes.end()});
  values = writer.transpose(writer.broadcast_to(values, result), inverse_order(plan.result_order));
  const Hlo written = writer.scatter_slices(sums ? "add" : "", operand, plan.coordinates, values);
  return {writer.convert(writer.transpose(written, inverse_order(plan.operand_order)), node.dtype())};
}

std::vector<Hlo> index_put(const Lowering& node) {
  return is_number_under_mask(node) ? put_number_under_mask(node)
                                    : put_at(node, node.tensors(1), node.tensor(2), node.flag(3));
}

// Nothing is added where the mask is not set, and indices outside are brought inside.
std::vector<Hlo> masked_index_put(const Lowering& node) {
  HloWriter& writer = node.writer();
  const Hlo values = node.tensor(3), mask = writer.broadcast_to(node.tensor(1), values.sizes);
  auto indices = node.tensors(2);
  for (size_t i = 0; i < indices.size(); ++i) {
    if (indices[i].name.empty()) continue;
    const int64_t size = node.sizes()[i];
    indices[i] = writer.binary("maximum", indices[i], node.filled(-size, indices[i]));
    indices[i] = writer.binary("minimum", indices[i], node.filled(size - 1, indices[i]));
  }
  return put_at(node, indices, writer.select(mask, values, node.filled(0, values)), true);
}
// Whether a mask spreads over a tensor without making it larger.
bool masks(const TensorMeta* mask, const TensorMeta* x) {
  if (mask == nullptr || x == nullptr || mask->dtype != at::kBool) return false;
  const auto small = mask->size_hints(), large = x->size_hints();
  if (small.size() > large.size()) return false;
  const size_t more = large.size() - small.size();
  for (size_t i = 0; i < small.size(); ++i) {
    if (small[i] != 1 && small[i] != large[i + more]) return false;
  }
  return true;
}
bool adds_under_mask(const Lowering& node) {
  return masks(operand_meta(node, 1), operand_meta(node, 3)) && has_dtype_of_result<3>(node) &&
         node.dtype() != at::kBool && has_integer_indices<2>(node);
}

// Operand `index` and what it is made of with as many elements: all that could be the same memory.
std::vector<Value> with_same_memory(const Lowering& node, size_t index) {
  const Graph& graph = node.graph();
  std::vector<Value> found{std::get<Value>(node.node().operands[index])};
  for (const Node* maker = graph.producer(found[0]); maker != nullptr; maker = graph.producer(found.back())) {
    std::vector<Value> read;
    for_each_operand_value(*maker, [&](Value value) { read.push_back(value); });
    if (read.size() != 1 || graph.meta(read[0]).numel() != graph.meta(found[0]).numel()) break;
    found.push_back(read[0]);
  }
  return found;
}

// Whether what is written is computed from what it is written to. XLA may run such an update in place and read what
// it has already written.
bool reads_what_it_writes(const Lowering& node) {
  const auto written = with_same_memory(node, 0);
  std::vector<bool> is_seen(node.graph().num_values());
  std::vector<Value> left{std::get<Value>(node.node().operands[1])};
  while (!left.empty()) {
    const Value value = left.back();
    left.pop_back();
    if (is_seen[value.id]) continue;
    is_seen[value.id] = true;
    if (std::find(written.begin(), written.end(), value) != written.end()) return true;
    const Node* maker = node.graph().producer(value);
    if (maker != nullptr) for_each_operand_value(*maker, [&](Value operand) { left.push_back(operand); });
  }
  return false;
}

// Puts `source` at `begin`, `begin + step`, ... along a dimension of `x`, which stays as it is and is read afterwards.
Hlo write_to_copy(const Lowering& node, const Hlo& x, const Hlo& source, int64_t dim, int64_t begin, int64_t step) {
  HloWriter& writer = node.writer();
  const std::vector<int64_t> none(x.sizes.size(), 0);
  auto low = none, high = none, between = none;
  low[dim] = begin, high[dim] = x.sizes[dim] - begin - (source.sizes[dim] - 1) * step - 1, between[dim] = step - 1;
  const Hlo is_written =
      writer.pad(writer.constant(true, at::kBool, source.sizes), node.scalar_of(false, at::kBool), low, high, between);
  return writer.select(is_written, writer.pad(source, node.scalar_of(0, x.dtype), low, high, between), x);
}

std::vector<Hlo> starts_at(const Lowering& node, int64_t rank, int64_t dim, int64_t begin) {
  std::vector<Hlo> starts;
  for (int64_t i = 0; i < rank; ++i) starts.push_back(node.scalar_of(i == dim ? begin : 0, at::kLong));
  return starts;
}

std::vector<Hlo> select_scatter(const Lowering& node) {
  HloWriter& writer = node.writer();
  const Hlo x = node.tensor(0);
  const int64_t dim = Lowering::wrap(node.integer(2), x.dim()), begin = Lowering::wrap(node.integer(3), x.sizes[dim]);
  auto sizes = x.sizes;
  sizes[dim] = 1;
  const Hlo source = writer.reshape(node.tensor(1), sizes);
  if (reads_what_it_writes(node)) return {write_to_copy(node, x, source, dim, begin, 1)};
  return {writer.dynamic_update_slice(x, source, starts_at(node, x.dim(), dim, begin))};
}

std::vector<Hlo> slice_scatter(const Lowering& node) {
  HloWriter& writer = node.writer();
  const Hlo x = node.tensor(0), source = node.tensor(1);
  if (elements_of(source.sizes) == 0) return {x};
  const int64_t dim = Lowering::wrap(node.integer(2), x.dim()), size = x.sizes[dim], step = node.integer(5, 1);
  const int64_t begin = std::clamp<int64_t>(Lowering::wrap(node.integer(3), size), 0, size);
  if (step != 1 || reads_what_it_writes(node)) return {write_to_copy(node, x, source, dim, begin, step)};
  return {writer.dynamic_update_slice(x, source, starts_at(node, x.dim(), dim, begin))};
}

// The source's elements in order at those of the mask. A source with too few is eager's error; here its last repeats.
std::vector<Hlo> masked_scatter(const Lowering& node) {
  HloWriter& writer = node.writer();
  const Hlo x = node.tensor(0), source = node.tensor(2), mask = writer.broadcast_to(node.tensor(1), x.sizes);
  const int64_t count = elements_of(x.sizes), available = elements_of(source.sizes);
  if (available == 0) return {x};
  const Hlo position = running_count(writer, writer.reshape(mask, {count}));
  const Hlo index = writer.binary("subtract", position, node.filled(1, position));
  const Hlo values = writer.take(writer.reshape(source, {available}), index, 0);
  return {writer.select(mask, writer.reshape(values, x.sizes), x)};
}
// The gradient of the source: what stands under the mask, in order, and zeros behind it.
std::vector<Hlo> masked_scatter_backward(const Lowering& node) {
  HloWriter& writer = node.writer();
  const Hlo gradient = node.tensor(0), mask = writer.broadcast_to(node.tensor(1), gradient.sizes);
  const int64_t count = elements_of(gradient.sizes), numel = elements_of(node.sizes());
  const Hlo zeros = writer.constant(0, gradient.dtype, {numel});
  if (count == 0) return {writer.reshape(zeros, node.sizes())};
  const Hlo flags = writer.reshape(mask, {count}), position = running_count(writer, flags);
  const Hlo before = writer.binary("subtract", position, node.filled(1, position));
  const Hlo index = writer.select(flags, before, node.filled(-1, before));  // which is skipped
  return {writer.reshape(writer.scatter_along("", zeros, 0, index, writer.reshape(gradient, {count})), node.sizes())};
}
bool is_plain_masked_gradient(const Lowering& node) { return masks(operand_meta(node, 1), operand_meta(node, 0)); }

// The mask and the operand may broadcast to a larger result.
bool is_plain_masked_scatter(const Lowering& node) {
  const TensorMeta *const self = operand_meta(node, 0), *const mask = operand_meta(node, 1);
  return self != nullptr && mask != nullptr && mask->dtype == at::kBool && self->sizes == node.result().sizes &&
         has_dtype_of_result<2>(node);
}

constexpr LoweringRow kWritingRows[] = {
    {"aten.index_put", index_put, writes_by_index},
    {"aten._unsafe_index_put", index_put, writes_by_index},
    {"aten._unsafe_masked_index_put_accumulate", masked_index_put, adds_under_mask},
    {"aten.masked_scatter_backward", masked_scatter_backward, is_plain_masked_gradient},
    {"aten.masked_scatter", masked_scatter, is_plain_masked_scatter},
    {"aten.select_scatter", select_scatter, has_dtype_of_result<1>},
    {"aten.slice_scatter", slice_scatter, has_dtype_of_result<1>},
};

}  // namespace

std::span<const LoweringRow> writing_lowerings() { return kWritingRows; }

}  // namespace diptych::detail
