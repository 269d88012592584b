// Means over windows, and their gradients.
#include <algorithm>

#include "diptych/xla/hlo/lowering_windows.h"

namespace diptych::detail {
namespace {

// What the sum over each window is divided by. `padding_counts`: the position of count_include_pad.
Hlo window_divisors(const Lowering& node, const PoolWindows& windows, size_t padding_counts, const Hlo& like) {
  if (node.is_given(padding_counts + 1)) return node.filled(node.scalar(padding_counts + 1), like);
  const bool counts_padding = node.flag(padding_counts, true);
  Hlo product;
  for (size_t i = 0; i < windows.rank(); ++i) {
    std::vector<double> counts;
    for (int64_t position = 0; position < windows.outputs[i]; ++position) {
      const int64_t begin = windows.begin(i, position), size = windows.inputs[i];
      const int64_t end = std::min(begin + windows.kernel[i], size + windows.padding[i]);
      counts.push_back(
          static_cast<double>(counts_padding ? end - begin : std::min(end, size) - std::max<int64_t>(begin, 0)));
    }
    const Hlo table = table_along(node.writer(), counts, like.dtype, like.sizes, static_cast<int64_t>(i) + 1);
    product = i == 0 ? table : node.writer().binary("multiply", product, table);
  }
  return product;
}

// A window of one plane and `kernel`, over a tensor padded with zeros.
Hlo window_sums(HloWriter& writer, const Hlo& planes, const std::vector<int64_t>& kernel,
                const std::vector<int64_t>& stride, std::vector<std::pair<int64_t, int64_t>> padding) {
  ReduceWindow window{{1}, {1}, std::vector<int64_t>(planes.sizes.size(), 1), std::move(padding)};
  window.sizes.insert(window.sizes.end(), kernel.begin(), kernel.end());
  window.stride.insert(window.stride.end(), stride.begin(), stride.end());
  return writer.reduce_window("add", planes, writer.constant(0, planes.dtype), window);
}

template <size_t kRank>
std::vector<Hlo> average_pool(const Lowering& node) {
  HloWriter& writer = node.writer();
  const auto windows = pool_windows(node, kRank, {1, 2, 3, -1}, operand_sizes(node, 0), node.sizes());
  const Hlo planes = as_planes(writer, node.converted(0, Lowering::wide(node.dtype())), kRank);
  std::vector<std::pair<int64_t, int64_t>> padding{{0, 0}};
  for (size_t i = 0; i < kRank; ++i) padding.emplace_back(windows.padding[i], windows.excess(i));
  const Hlo sums = window_sums(writer, planes, windows.kernel, windows.stride, padding);
  const Hlo means = writer.binary("divide", sums, window_divisors(node, windows, 5, sums));
  return {writer.convert(writer.reshape(means, node.sizes()), node.dtype())};
}

// Each element of the input gets the gradients of the windows that hold it: sums over windows of the gradient, between
// whose elements there are stride - 1 zeros.
template <size_t kRank>
std::vector<Hlo> average_pool_backward(const Lowering& node) {
  HloWriter& writer = node.writer();
  const auto windows = pool_windows(node, kRank, {2, 3, 4, -1}, node.sizes(), operand_sizes(node, 0));
  Hlo planes = as_planes(writer, node.converted(0, Lowering::wide(node.dtype())), kRank);
  planes = writer.binary("divide", planes, window_divisors(node, windows, 6, planes));
  std::vector<int64_t> low(1, 0), high(1, 0), interior(1, 0);
  for (size_t i = 0; i < kRank; ++i) {
    interior.push_back(windows.stride[i] - 1);
    low.push_back(windows.kernel[i] - 1 - windows.padding[i]);
    const int64_t dilated = (windows.outputs[i] - 1) * windows.stride[i] + 1;
    high.push_back(windows.inputs[i] + windows.kernel[i] - 1 - dilated - low.back());
  }
  const Hlo spread = writer.pad(planes, writer.constant(0, planes.dtype), low, high, interior);
  const std::vector<int64_t> ones(kRank, 1);
  const std::vector<std::pair<int64_t, int64_t>> none(kRank + 1, {0, 0});
  const Hlo sums = window_sums(writer, spread, windows.kernel, ones, none);
  return {writer.convert(writer.reshape(sums, node.sizes()), node.dtype())};
}

// Integers are divided as integers: left to the interpreter. So is a divisor of 0, which eager refuses.
template <size_t kDivisor>
bool is_float_pool(const Lowering& node) {
  return at::isFloatingType(node.dtype()) && !(node.is_given(kDivisor) && node.integer(kDivisor) == 0);
}

std::vector<double> inverse_lengths(const std::vector<Stretch>& stretches) {
  std::vector<double> factors;
  for (const Stretch& stretch : stretches) factors.push_back(1.0 / static_cast<double>(stretch.end - stretch.begin));
  return factors;
}

template <size_t kRank>
std::vector<Hlo> adaptive_average_pool(const Lowering& node) {
  HloWriter& writer = node.writer();
  Hlo x = as_planes(writer, node.converted(0, Lowering::wide(node.dtype())), kRank);
  const auto outputs = node.sizes();
  for (size_t i = kRank; i-- > 0;) {
    const auto dim = static_cast<int64_t>(i) + 1;
    const auto stretches = adaptive_stretches(x.sizes[dim], outputs[outputs.size() - kRank + i]);
    x = scale_along(writer, sum_stretches(writer, x, dim, stretches), dim, inverse_lengths(stretches));
  }
  return {writer.convert(writer.reshape(x, outputs), node.dtype())};
}

template <size_t kRank>
std::vector<Hlo> adaptive_average_pool_backward(const Lowering& node) {
  HloWriter& writer = node.writer();
  Hlo y = as_planes(writer, node.converted(0, Lowering::wide(node.dtype())), kRank);
  const auto inputs = node.sizes();
  for (size_t i = 0; i < kRank; ++i) {
    const auto dim = static_cast<int64_t>(i) + 1;
    const int64_t size = inputs[inputs.size() - kRank + i];
    const auto stretches = adaptive_stretches(size, y.sizes[dim]);
    y = spread_stretches(writer, scale_along(writer, y, dim, inverse_lengths(stretches)), dim, stretches, size);
  }
  return {writer.convert(writer.reshape(y, inputs), node.dtype())};
}

// Windows that are not all alike are written out one by one, which is not worth it for many.
template <size_t kRank>
bool is_small_adaptive_pool(const Lowering& node) {
  constexpr int64_t kMostStretches = 256;
  const auto first = operand_sizes(node, 0), second = node.sizes();
  int64_t count = 0;
  for (size_t i = 0; i < kRank; ++i) {
    const int64_t a = first[first.size() - 1 - i], b = second[second.size() - 1 - i];
    if (a == 0 || b == 0) return false;
    if (a % b != 0 && b % a != 0) count += std::max(a, b);
  }
  return at::isFloatingType(node.dtype()) && count <= kMostStretches;
}

constexpr LoweringRow kAveragePoolingRows[] = {
    {"aten.avg_pool2d", average_pool<2>, is_float_pool<6>},
    {"aten.avg_pool3d", average_pool<3>, is_float_pool<6>},
    {"aten.avg_pool2d_backward", average_pool_backward<2>, is_float_pool<7>},
    {"aten.avg_pool3d_backward", average_pool_backward<3>, is_float_pool<7>},
    {"aten._adaptive_avg_pool2d", adaptive_average_pool<2>, is_small_adaptive_pool<2>},
    {"aten._adaptive_avg_pool3d", adaptive_average_pool<3>, is_small_adaptive_pool<3>},
    {"aten._adaptive_avg_pool2d_backward", adaptive_average_pool_backward<2>, is_small_adaptive_pool<2>},
    {"aten._adaptive_avg_pool3d_backward", adaptive_average_pool_backward<3>, is_small_adaptive_pool<3>},
};

}  // namespace

std::span<const LoweringRow> average_pooling_lowerings() { return kAveragePoolingRows; }

}  // namespace diptych::detail
