#include "diptych/xla/hlo/index_positions.h"
#include "diptych/xla/hlo/reduction_parts.h"

#include <functional>
#include <numeric>

namespace diptych::detail {
namespace {

std::vector<int64_t> with_last(std::vector<int64_t> sizes, int64_t last) {
  sizes.push_back(last);
  return sizes;
}

// The position in memory of every element of a view.
Hlo strided_positions(HloWriter& writer, const StridedElements& view) {
  Hlo positions = writer.constant(view.offset, at::kLong, view.sizes);
  for (size_t i = 0; i < view.sizes.size(); ++i) {
    if (view.sizes[i] == 1 || view.strides[i] == 0) continue;
    const Hlo steps = writer.iota(at::kLong, view.sizes, static_cast<int64_t>(i));
    const Hlo stride = writer.constant(view.strides[i], at::kLong, view.sizes);
    positions = writer.binary("add", positions, writer.binary("multiply", steps, stride));
  }
  return positions;
}

// The sizes that all tensors broadcast to.
std::vector<int64_t> broadcast_sizes(const std::vector<Hlo>& tensors) {
  std::vector<int64_t> sizes;
  for (const Hlo& tensor : tensors) {
    if (tensor.sizes.size() > sizes.size()) sizes.insert(sizes.begin(), tensor.sizes.size() - sizes.size(), 1);
    const size_t added = sizes.size() - tensor.sizes.size();
    for (size_t i = 0; i < tensor.sizes.size(); ++i) {
      if (tensor.sizes[i] != 1) sizes[added + i] = tensor.sizes[i];
    }
  }
  return sizes;
}

// Rows have the indices' dimensions first. Those stand in the result where the indexed dimensions stood if these are
// neighbours, and first if they are not.
std::vector<int64_t> result_order_of(const std::vector<int64_t>& dims, int64_t batch, int64_t rest) {
  const bool are_neighbours = dims.back() - dims.front() + 1 == static_cast<int64_t>(dims.size());
  std::vector<int64_t> order(batch + rest);
  std::iota(order.begin(), order.end(), 0);
  if (are_neighbours) std::rotate(order.begin(), order.begin() + batch, order.begin() + batch + dims.front());
  return order;
}

}  // namespace

std::vector<int64_t> contiguous_strides_of(const std::vector<int64_t>& sizes) {
  std::vector<int64_t> strides(sizes.size(), 1);
  for (size_t i = sizes.size(); i-- > 1;) strides[i - 1] = strides[i] * sizes[i];
  return strides;
}

int64_t elements_of(const std::vector<int64_t>& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
}

Hlo at_least_1d(HloWriter& writer, const Hlo& x) { return x.dim() == 0 ? writer.reshape(x, {1}) : x; }

Hlo wrap_indices(HloWriter& writer, const Hlo& index, int64_t size) {
  const Hlo from_end = writer.binary("add", index, writer.constant(size, index.dtype, index.sizes));
  return writer.select(writer.compare("LT", index, writer.constant(0, index.dtype, index.sizes)), from_end, index);
}

Hlo coordinates_along(HloWriter& writer, const Hlo& index, int64_t dim) {
  const auto sizes = with_last(index.sizes, 1);
  std::vector<Hlo> coordinates;
  for (int64_t i = 0; i < index.dim(); ++i) {
    coordinates.push_back(i == dim ? writer.reshape(index, sizes) : writer.iota(index.dtype, sizes, i));
  }
  return writer.concatenate(coordinates, index.dim());
}

Hlo read_strided(HloWriter& writer, const Hlo& x, const StridedElements& view) {
  return writer.take(writer.reshape(x, {elements_of(x.sizes)}), strided_positions(writer, view), 0);
}

Hlo write_strided(HloWriter& writer, std::string_view operation, const Hlo& x, const StridedElements& view,
                  const Hlo& updates) {
  if (elements_of(view.sizes) == 0) return x;
  const Hlo positions = writer.reshape(strided_positions(writer, view), with_last(view.sizes, 1));
  const Hlo flat = writer.reshape(x, {elements_of(x.sizes)});
  return writer.reshape(writer.scatter_slices(operation, flat, positions, updates), x.sizes);
}

AdvancedIndex advanced_index(HloWriter& writer, const Hlo& x, const std::vector<Hlo>& indices) {
  std::vector<Hlo> given;
  std::vector<int64_t> dims, whole;
  for (int64_t i = 0; i < x.dim(); ++i) {
    const bool is_indexed = i < static_cast<int64_t>(indices.size()) && !indices[i].name.empty();
    (is_indexed ? dims : whole).push_back(i);
    if (is_indexed) given.push_back(wrap_indices(writer, writer.convert(indices[i], at::kLong), x.sizes[i]));
  }
  const auto sizes = broadcast_sizes(given);
  for (Hlo& index : given) index = writer.reshape(writer.broadcast_to(index, sizes), with_last(sizes, 1));
  AdvancedIndex plan{writer.concatenate(given, static_cast<int64_t>(sizes.size())), dims, {}};
  plan.operand_order.insert(plan.operand_order.end(), whole.begin(), whole.end());
  plan.result_order = result_order_of(dims, static_cast<int64_t>(sizes.size()), static_cast<int64_t>(whole.size()));
  return plan;
}

Hlo matrix_rows(HloWriter& writer, const std::vector<int64_t>& sizes) {
  return writer.iota(at::kLong, sizes, static_cast<int64_t>(sizes.size()) - 2);
}
Hlo matrix_columns(HloWriter& writer, const std::vector<int64_t>& sizes) {
  return writer.iota(at::kLong, sizes, static_cast<int64_t>(sizes.size()) - 1);
}
Hlo identity_matrix(HloWriter& writer, at::ScalarType dtype, const std::vector<int64_t>& sizes) {
  return writer.convert(writer.compare("EQ", matrix_rows(writer, sizes), matrix_columns(writer, sizes)), dtype);
}

Hlo running_count(HloWriter& writer, const Hlo& flags) {
  return running(writer, "add", writer.convert(flags, at::kLong), 0, 0);
}

std::vector<int64_t> inverse_order(const std::vector<int64_t>& order) {
  std::vector<int64_t> positions(order.size());
  for (size_t i = 0; i < order.size(); ++i) positions[order[i]] = static_cast<int64_t>(i);
  return positions;
}

const TensorMeta* operand_meta(const Lowering& node, size_t index) {
  if (index >= node.node().operands.size()) return nullptr;
  const auto* value = std::get_if<Value>(&node.node().operands[index]);
  return value == nullptr || !*value ? nullptr : &node.graph().meta(*value);
}

}  // namespace diptych::detail
