// Tensors with more elements around or between theirs, and the gradients of slices, which are such tensors.
#include <algorithm>

#include "diptych/xla/hlo/index_positions.h"

namespace diptych::detail {
namespace {

// Padding as ATen lists it, from the last dimension on: before and after, negative to crop.
std::vector<Hlo> constant_pad(const Lowering& node) {
  const Hlo x = node.tensor(0);
  const auto padding = node.integers(1);
  const std::vector<int64_t> none(x.sizes.size(), 0);
  auto low = none, high = none;
  for (size_t i = 0; i + 1 < padding.size(); i += 2) {
    low[low.size() - 1 - i / 2] = padding[i];
    high[high.size() - 1 - i / 2] = padding[i + 1];
  }
  return {node.writer().pad(x, node.scalar_of(node.scalar(2), x.dtype), low, high, none)};
}

// For every position along a padded dimension, the position in the tensor of `size` whose element stands there.
using SourceOf = int64_t (*)(int64_t position, int64_t size);
int64_t reflected(int64_t position, int64_t size) {
  const int64_t folded = std::abs(position);
  return folded < size ? folded : 2 * (size - 1) - folded;
}
int64_t replicated(int64_t position, int64_t size) { return std::clamp<int64_t>(position, 0, size - 1); }

struct PaddedDim {
  int64_t dim = 0;
  std::vector<int64_t> sources;
};
std::vector<PaddedDim> padded_dims(const std::vector<int64_t>& sizes, const std::vector<int64_t>& padding,
                                   SourceOf source) {
  std::vector<PaddedDim> dims;
  for (size_t i = 0; i + 1 < padding.size(); i += 2) {
    if (padding[i] == 0 && padding[i + 1] == 0) continue;
    PaddedDim padded{static_cast<int64_t>(sizes.size() - 1 - i / 2), {}};
    const int64_t size = sizes[padded.dim];
    for (int64_t at = -padding[i]; at < size + padding[i + 1]; ++at) padded.sources.push_back(source(at, size));
    dims.push_back(std::move(padded));
  }
  return dims;
}

template <SourceOf kSource>
std::vector<Hlo> pad_with_own(const Lowering& node) {
  HloWriter& writer = node.writer();
  Hlo x = node.tensor(0);
  for (const auto& [dim, sources] : padded_dims(x.sizes, node.integers(1), kSource)) {
    x = writer.take(x, writer.constant_list(sources, at::kLong), dim);
  }
  return {x};
}

template <SourceOf kSource>
std::vector<Hlo> pad_with_own_backward(const Lowering& node) {
  HloWriter& writer = node.writer();
  const auto sizes = node.sizes();
  Hlo gradient = node.converted(0, Lowering::wide(node.dtype()));
  for (const auto& [dim, sources] : padded_dims(sizes, node.integers(2), kSource)) {
    auto inner = gradient.sizes;
    inner[dim] = sizes[dim];
    const Hlo zeros = writer.constant(0, gradient.dtype, inner);
    gradient = sources.empty()
                   ? zeros
                   : writer.scatter_along("add", zeros, dim, writer.constant_list(sources, at::kLong), gradient);
  }
  return {writer.convert(gradient, node.dtype())};
}

std::vector<Hlo> select_backward(const Lowering& node) {
  HloWriter& writer = node.writer();
  auto sizes = node.sizes();
  const int64_t rank = static_cast<int64_t>(sizes.size()), dim = Lowering::wrap(node.integer(2), rank);
  const int64_t size = sizes[dim], index = Lowering::wrap(node.integer(3), size);
  const std::vector<int64_t> none(sizes.size(), 0);
  auto low = none, high = none;
  low[dim] = index, high[dim] = size - 1 - index;
  sizes[dim] = 1;
  const Hlo gradient = writer.reshape(node.tensor(0), sizes);
  return {writer.pad(gradient, node.scalar_of(0, gradient.dtype), low, high, none)};
}

std::vector<Hlo> slice_backward(const Lowering& node) {
  HloWriter& writer = node.writer();
  const Hlo gradient = node.tensor(0);
  const auto sizes = node.sizes();
  const int64_t dim = Lowering::wrap(node.integer(2), gradient.dim()), size = sizes[dim], step = node.integer(5, 1);
  const int64_t count = gradient.sizes[dim],
                begin = std::clamp<int64_t>(Lowering::wrap(node.integer(3), size), 0, size);
  if (elements_of(gradient.sizes) == 0) return {writer.constant(0, gradient.dtype, sizes)};
  const std::vector<int64_t> none(sizes.size(), 0);
  auto low = none, high = none, between = none;
  low[dim] = begin, high[dim] = size - begin - (count - 1) * step - 1, between[dim] = step - 1;
  return {writer.pad(gradient, node.scalar_of(0, gradient.dtype), low, high, between)};
}

constexpr LoweringRow kPaddingRows[] = {
    {"aten.constant_pad_nd", constant_pad},
    {"aten.reflection_pad1d", pad_with_own<reflected>},
    {"aten.reflection_pad2d", pad_with_own<reflected>},
    {"aten.reflection_pad3d", pad_with_own<reflected>},
    {"aten.replication_pad1d", pad_with_own<replicated>},
    {"aten.replication_pad2d", pad_with_own<replicated>},
    {"aten.replication_pad3d", pad_with_own<replicated>},
    {"aten.reflection_pad1d_backward", pad_with_own_backward<reflected>},
    {"aten.reflection_pad2d_backward", pad_with_own_backward<reflected>},
    {"aten.reflection_pad3d_backward", pad_with_own_backward<reflected>},
    {"aten.replication_pad1d_backward", pad_with_own_backward<replicated>},
    {"aten.replication_pad2d_backward", pad_with_own_backward<replicated>},
    {"aten.replication_pad3d_backward", pad_with_own_backward<replicated>},
    {"aten.select_backward", select_backward},
    {"aten.slice_backward", slice_backward},
};

}  // namespace

std::span<const LoweringRow> padding_lowerings() { return kPaddingRows; }

}  // namespace diptych::detail
