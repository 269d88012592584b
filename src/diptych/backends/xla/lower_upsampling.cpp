// Resizing by nearest neighbours and by linear interpolation, and their gradients.
#include <algorithm>
#include <cmath>

#include "diptych/backends/xla/lowering_windows.h"

namespace diptych::detail {
namespace {

// The scale that eager resizes with: what the user gave, or the sizes' quotient. Source: ATen's UpSample.h.
template <typename Number>
Number source_scale(const Lowering& node, size_t operand, int64_t input, int64_t output) {
  const double given = node.number(operand);
  return given > 0 ? static_cast<Number>(1.0 / given) : static_cast<Number>(input) / static_cast<Number>(output);
}

// The input's position for each of the output's.
template <typename Number>
std::vector<int64_t> nearest_positions(const Lowering& node, size_t operand, int64_t input, int64_t output) {
  const auto scale = source_scale<Number>(node, operand, input, output);
  std::vector<int64_t> positions;
  for (int64_t i = 0; i < output; ++i) {
    positions.push_back(std::min(static_cast<int64_t>(std::floor(static_cast<Number>(i) * scale)), input - 1));
  }
  return positions;
}

// The outputs that each position of the input goes to, which follow each other.
std::vector<Stretch> copies_of(const std::vector<int64_t>& positions, int64_t input) {
  std::vector<Stretch> stretches;
  for (int64_t i = 0; i < input; ++i) {
    const auto [begin, end] = std::equal_range(positions.begin(), positions.end(), i);
    stretches.push_back({begin - positions.begin(), end - positions.begin()});
  }
  return stretches;
}

template <size_t kRank>
std::vector<Hlo> upsample_nearest(const Lowering& node) {
  HloWriter& writer = node.writer();
  Hlo x = node.tensor(0);
  for (size_t i = 0; i < kRank; ++i) {
    const auto dim = static_cast<int64_t>(i) + 2;
    const int64_t input = x.sizes[dim], output = node.sizes()[dim];
    const auto positions = nearest_positions<float>(node, 2 + i, input, output);
    const auto stretches = copies_of(positions, input);
    const bool is_exact = output % input == 0;
    const bool is_even = is_exact && std::all_of(stretches.begin(), stretches.end(), [&](const Stretch& stretch) {
                           return stretch.end - stretch.begin == output / input;
                         });
    x = is_even ? spread_stretches(writer, x, dim, stretches, output)
                : writer.take(x, writer.constant_list(positions, at::kInt), dim);
  }
  return {x};
}

template <size_t kRank>
std::vector<Hlo> upsample_nearest_backward(const Lowering& node) {
  HloWriter& writer = node.writer();
  const auto inputs = node.sizes();
  Hlo y = node.converted(0, Lowering::wide(node.dtype()));
  for (size_t i = 0; i < kRank; ++i) {
    const auto dim = static_cast<int64_t>(i) + 2;
    const auto positions = nearest_positions<float>(node, 3 + i, inputs[dim], y.sizes[dim]);
    y = sum_stretches(writer, y, dim, copies_of(positions, inputs[dim]));
  }
  return {writer.convert(y, node.dtype())};
}

// ATen has kernels that find positions in different precisions: only what all agree on is lowered.
template <size_t kRank, size_t kScales>
bool is_certain_nearest(const Lowering& node) {
  constexpr int64_t kMostPositions = 512;
  auto inputs = operand_sizes(node, 0), outputs = node.sizes();
  const bool is_backward = kScales == 3;
  if (is_backward) std::swap(inputs, outputs);
  int64_t count = 0;
  for (size_t i = 0; i < kRank; ++i) {
    const int64_t input = inputs[i + 2], output = outputs[i + 2];
    if (input == 0 || output == 0) return false;
    const auto positions = nearest_positions<float>(node, kScales + i, input, output);
    if (positions != nearest_positions<double>(node, kScales + i, input, output)) return false;
    // Eager has a short cut for the double size, whatever the scale.
    for (int64_t j = 0; j < output; ++j) {
      if ((output == input && positions[j] != j) || (output == 2 * input && positions[j] != j / 2)) return false;
    }
    if (is_backward && output % input != 0) count += input;
  }
  return count <= kMostPositions && !at::isComplexType(node.dtype()) &&
         std::count(inputs.begin(), inputs.end(), 0) == 0;
}

/// How an output is made of two of the input's positions.
struct LinearTable {
  std::vector<int64_t> low, high;
  std::vector<double> low_weight, high_weight;
};

// Source: ATen's UpSample.h: positions in the dtype that the kernel computes in.
template <typename Number>
LinearTable linear_table(bool aligns_corners, double given_scale, int64_t input, int64_t output) {
  Number scale = given_scale > 0 ? static_cast<Number>(1.0 / given_scale)
                                 : static_cast<Number>(input) / static_cast<Number>(output);
  if (aligns_corners) scale = output > 1 ? static_cast<Number>(input - 1) / static_cast<Number>(output - 1) : Number{0};
  LinearTable table;
  for (int64_t i = 0; i < output; ++i) {
    const auto middle = static_cast<Number>(scale * (static_cast<Number>(i) + Number{0.5}) - Number{0.5});
    const Number place = aligns_corners ? scale * static_cast<Number>(i) : std::max(middle, Number{0});
    const int64_t low = std::min(static_cast<int64_t>(std::floor(place)), input - 1);
    const Number weight = std::min(std::max(place - static_cast<Number>(low), Number{0}), Number{1});
    table.low.push_back(low);
    table.high.push_back(low < input - 1 ? low + 1 : low);
    table.low_weight.push_back(static_cast<double>(Number{1} - weight));
    table.high_weight.push_back(static_cast<double>(weight));
  }
  return table;
}
LinearTable linear_table(at::ScalarType dtype, bool aligns_corners, double scale, int64_t input, int64_t output) {
  return dtype == at::kDouble ? linear_table<double>(aligns_corners, scale, input, output)
                              : linear_table<float>(aligns_corners, scale, input, output);
}

template <size_t kRank>
std::vector<Hlo> upsample_linear(const Lowering& node) {
  HloWriter& writer = node.writer();
  Hlo x = node.converted(0, Lowering::wide(node.dtype()));
  for (size_t i = kRank; i-- > 0;) {
    const auto dim = static_cast<int64_t>(i) + 2;
    const auto table = linear_table(x.dtype, node.flag(2), node.number(3 + i), x.sizes[dim], node.sizes()[dim]);
    const auto part = [&](const std::vector<int64_t>& positions, const std::vector<double>& weights) {
      return scale_along(writer, writer.take(x, writer.constant_list(positions, at::kInt), dim), dim, weights);
    };
    x = writer.binary("add", part(table.low, table.low_weight), part(table.high, table.high_weight));
  }
  return {writer.convert(x, node.dtype())};
}

template <size_t kRank>
std::vector<Hlo> upsample_linear_backward(const Lowering& node) {
  HloWriter& writer = node.writer();
  const auto inputs = node.sizes();
  Hlo y = node.converted(0, Lowering::wide(node.dtype()));
  for (size_t i = 0; i < kRank; ++i) {
    const auto dim = static_cast<int64_t>(i) + 2;
    const auto table = linear_table(y.dtype, node.flag(3), node.number(4 + i), inputs[dim], y.sizes[dim]);
    // Rows are added along dimension 0.
    std::vector<int64_t> order;
    for (int64_t j = 0; j < y.dim(); ++j) order.push_back(j);
    std::swap(order[0], order[dim]);
    const Hlo first = writer.transpose(y, order);
    auto sizes = first.sizes;
    sizes[0] = inputs[dim];
    Hlo sum = writer.constant(0, y.dtype, sizes);
    const auto add = [&](const std::vector<int64_t>& positions, const std::vector<double>& weights) {
      const Hlo rows = scale_along(writer, first, 0, weights);
      sum = writer.scatter_along("add", sum, 0, writer.constant_list(positions, at::kInt), rows);
    };
    add(table.low, table.low_weight);
    add(table.high, table.high_weight);
    y = writer.transpose(sum, order);
  }
  return {writer.convert(y, node.dtype())};
}

bool is_float_resize(const Lowering& node) {
  const auto first = operand_sizes(node, 0), second = node.sizes();
  return at::isFloatingType(node.dtype()) && std::count(first.begin(), first.end(), 0) == 0 &&
         std::count(second.begin(), second.end(), 0) == 0;
}

constexpr LoweringRow kUpsamplingRows[] = {
    {"aten.upsample_nearest1d", upsample_nearest<1>, is_certain_nearest<1, 2>},
    {"aten.upsample_nearest2d", upsample_nearest<2>, is_certain_nearest<2, 2>},
    {"aten.upsample_nearest3d", upsample_nearest<3>, is_certain_nearest<3, 2>},
    {"aten.upsample_nearest1d_backward", upsample_nearest_backward<1>, is_certain_nearest<1, 3>},
    {"aten.upsample_nearest2d_backward", upsample_nearest_backward<2>, is_certain_nearest<2, 3>},
    {"aten.upsample_nearest3d_backward", upsample_nearest_backward<3>, is_certain_nearest<3, 3>},
    {"aten.upsample_linear1d", upsample_linear<1>, is_float_resize},
    {"aten.upsample_bilinear2d", upsample_linear<2>, is_float_resize},
    {"aten.upsample_trilinear3d", upsample_linear<3>, is_float_resize},
    {"aten.upsample_linear1d_backward", upsample_linear_backward<1>, is_float_resize},
    {"aten.upsample_bilinear2d_backward", upsample_linear_backward<2>, is_float_resize},
    {"aten.upsample_trilinear3d_backward", upsample_linear_backward<3>, is_float_resize},
};

}  // namespace

std::span<const LoweringRow> upsampling_lowerings() { return kUpsamplingRows; }

}  // namespace diptych::detail
