#include "diptych/xla/hlo/lowering_windows.h"

#include <algorithm>
#include <functional>
#include <numeric>

namespace diptych::detail {
namespace {

int64_t product_of(const std::vector<int64_t>& values) {
  return std::accumulate(values.begin(), values.end(), int64_t{1}, std::multiplies<>());
}

// Whether the stretches are all of one length and follow each other from 0 to `size`.
bool is_tiling(const std::vector<Stretch>& stretches, int64_t size) {
  const auto count = static_cast<int64_t>(stretches.size());
  if (count == 0 || size % count != 0) return false;
  for (int64_t i = 0; i < count; ++i) {
    if (stretches[i].begin != i * (size / count) || stretches[i].end != (i + 1) * (size / count)) return false;
  }
  return true;
}

std::vector<int64_t> tiled_sizes(const std::vector<int64_t>& sizes, int64_t dim, int64_t tiles, int64_t length) {
  auto tiled = sizes;
  tiled[dim] = tiles;
  tiled.insert(tiled.begin() + dim + 1, length);
  return tiled;
}

Hlo sum_rows(HloWriter& writer, const Hlo& x, int64_t dim) {
  return writer.reduce("add", x, writer.constant(0, x.dtype), {dim});
}

}  // namespace

int64_t PoolWindows::count() const { return product_of(kernel); }
int64_t PoolWindows::plane() const { return product_of(inputs); }
int64_t PoolWindows::excess(size_t i) const {
  return std::max<int64_t>(begin(i, outputs[i] - 1) + span(i) - inputs[i], 0);
}

PoolWindows pool_windows(const Lowering& node, size_t rank, const PoolOperands& operands,
                         const std::vector<int64_t>& input, const std::vector<int64_t>& output) {
  const auto list = [&](int operand, int64_t otherwise) {
    auto values = operand < 0 ? std::vector<int64_t>{otherwise} : node.integers(static_cast<size_t>(operand));
    if (values.size() == 1) values.assign(rank, values[0]);
    return values;
  };
  PoolWindows windows;
  windows.kernel = list(operands.kernel, 1);
  windows.stride = list(operands.stride, 1);
  if (windows.stride.empty()) windows.stride = windows.kernel;
  windows.padding = list(operands.padding, 0);
  windows.dilation = list(operands.dilation, 1);
  const auto last = static_cast<int64_t>(rank);
  windows.inputs.assign(input.end() - last, input.end());
  windows.outputs.assign(output.end() - last, output.end());
  return windows;
}

std::vector<int64_t> operand_sizes(const Lowering& node, size_t index) {
  return node.graph().meta(std::get<Value>(node.node().operands[index])).size_hints();
}

Hlo as_planes(HloWriter& writer, const Hlo& x, size_t rank) {
  const auto first = x.sizes.end() - static_cast<int64_t>(rank);
  std::vector<int64_t> sizes{product_of({x.sizes.begin(), first})};
  sizes.insert(sizes.end(), first, x.sizes.end());
  return writer.reshape(x, sizes);
}

std::vector<Stretch> adaptive_stretches(int64_t inputs, int64_t outputs) {
  std::vector<Stretch> stretches;
  for (int64_t i = 0; i < outputs; ++i)
    stretches.push_back({i * inputs / outputs, ((i + 1) * inputs + outputs - 1) / outputs});
  return stretches;
}

Hlo sum_stretches(HloWriter& writer, const Hlo& x, int64_t dim, const std::vector<Stretch>& stretches) {
  const int64_t size = x.sizes[dim];
  if (is_tiling(stretches, size)) {
    const auto count = static_cast<int64_t>(stretches.size());
    return sum_rows(writer, writer.reshape(x, tiled_sizes(x.sizes, dim, count, size / count)), dim + 1);
  }
  auto row = x.sizes;
  row[dim] = 1;
  std::vector<Hlo> rows;
  for (const Stretch& stretch : stretches) {
    rows.push_back(writer.reshape(sum_rows(writer, writer.slice_along(x, dim, stretch.begin, stretch.end), dim), row));
  }
  return writer.concatenate(rows, dim);
}

Hlo spread_stretches(HloWriter& writer, const Hlo& y, int64_t dim, const std::vector<Stretch>& stretches,
                     int64_t size) {
  const auto count = static_cast<int64_t>(stretches.size());
  if (is_tiling(stretches, size)) {
    const auto tiled = tiled_sizes(y.sizes, dim, count, size / count);
    std::vector<int64_t> dims(tiled.size());
    std::iota(dims.begin(), dims.end(), 0);
    dims.erase(dims.begin() + dim + 1);
    auto sizes = y.sizes;
    sizes[dim] = size;
    return writer.reshape(writer.broadcast(y, tiled, dims), sizes);
  }
  // The stretches that hold a position follow each other, so that the gradient is a sum over stretches of `y`.
  std::vector<Stretch> holders;
  for (int64_t position = 0; position < size; ++position) {
    Stretch holder{0, 0};
    while (holder.begin < count && stretches[holder.begin].end <= position) ++holder.begin;
    holder.end = holder.begin;
    while (holder.end < count && stretches[holder.end].begin <= position) ++holder.end;
    holders.push_back(holder);
  }
  return sum_stretches(writer, y, dim, holders);
}

Hlo table_along(HloWriter& writer, const std::vector<double>& values, at::ScalarType dtype,
                const std::vector<int64_t>& sizes, int64_t dim) {
  if (std::all_of(values.begin(), values.end(), [&](double value) { return value == values[0]; })) {
    return writer.constant(values.empty() ? 0 : values[0], dtype, sizes);
  }
  std::vector<Hlo> parts;
  for (const double value : values) parts.push_back(writer.constant(value, dtype, {1}));
  return writer.broadcast(writer.concatenate(parts, 0), sizes, {dim});
}

Hlo scale_along(HloWriter& writer, const Hlo& x, int64_t dim, const std::vector<double>& factors) {
  const bool is_plain = std::all_of(factors.begin(), factors.end(), [](double factor) { return factor == 1; });
  return is_plain ? x : writer.binary("multiply", x, table_along(writer, factors, x.dtype, x.sizes, dim));
}

}  // namespace diptych::detail
