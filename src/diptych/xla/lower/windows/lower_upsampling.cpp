// Resizing by nearest neighbours, and its gradients.
#include <algorithm>
#include <cmath>

#include "diptych/xla/hlo/lowering_windows.h"

namespace diptych::detail {
namespace {

// The scale that eager resizes with: what the user gave, or the sizes' quotient. Source: ATen's UpSample.h.
template <typename Number>
Number source_scale(const Lowering& node, size_t operand, int64_t input, int64_t output) {
  const double given = node.number(operand);
  return given > 0 ? static_cast<Number>(1.0 / given) : static_cast<Number>(input) / static_cast<Number>(output);
}

// The input's position for each of the output's: of its first edge, or of its middle where the operator is exact.
template <typename Number>
std::vector<int64_t> nearest_positions(const Lowering& node, size_t operand, bool is_exact, int64_t input,
                                       int64_t output) {
  const auto scale = source_scale<Number>(node, operand, input, output);
  std::vector<int64_t> positions;
  for (int64_t i = 0; i < output; ++i) {
    const Number place = static_cast<Number>(i) + (is_exact ? Number{0.5} : Number{0});
    positions.push_back(std::min(static_cast<int64_t>(std::floor(place * scale)), input - 1));
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

template <size_t kRank, bool kIsExact = false>
std::vector<Hlo> upsample_nearest(const Lowering& node) {
  HloWriter& writer = node.writer();
  Hlo x = node.tensor(0);
  for (size_t i = 0; i < kRank; ++i) {
    const auto dim = static_cast<int64_t>(i) + 2;
    const int64_t input = x.sizes[dim], output = node.sizes()[dim];
    const auto positions = nearest_positions<float>(node, 2 + i, kIsExact, input, output);
    const auto stretches = copies_of(positions, input);
    const bool divides = output % input == 0;
    const bool is_even = divides && std::all_of(stretches.begin(), stretches.end(), [&](const Stretch& stretch) {
                           return stretch.end - stretch.begin == output / input;
                         });
    x = is_even ? spread_stretches(writer, x, dim, stretches, output)
                : writer.take(x, writer.constant_list(positions, at::kInt), dim);
  }
  return {x};
}

template <size_t kRank, bool kIsExact = false>
std::vector<Hlo> upsample_nearest_backward(const Lowering& node) {
  HloWriter& writer = node.writer();
  const auto inputs = node.sizes();
  Hlo y = node.converted(0, Lowering::wide(node.dtype()));
  for (size_t i = 0; i < kRank; ++i) {
    const auto dim = static_cast<int64_t>(i) + 2;
    const auto positions = nearest_positions<float>(node, 3 + i, kIsExact, inputs[dim], y.sizes[dim]);
    y = sum_stretches(writer, y, dim, copies_of(positions, inputs[dim]));
  }
  return {writer.convert(y, node.dtype())};
}

// ATen has kernels that find positions in different precisions: only what all agree on is lowered.
template <size_t kRank, size_t kScales, bool kIsExact = false>
bool is_certain_nearest(const Lowering& node) {
  constexpr int64_t kMostPositions = 512;
  auto inputs = operand_sizes(node, 0), outputs = node.sizes();
  const bool is_backward = kScales == 3;
  if (is_backward) std::swap(inputs, outputs);
  int64_t count = 0;
  for (size_t i = 0; i < kRank; ++i) {
    const int64_t input = inputs[i + 2], output = outputs[i + 2];
    if (input == 0 || output == 0) return false;
    const auto positions = nearest_positions<float>(node, kScales + i, kIsExact, input, output);
    if (positions != nearest_positions<double>(node, kScales + i, kIsExact, input, output)) return false;
    // Eager has a short cut for the double size, whatever the scale.
    for (int64_t j = 0; !kIsExact && j < output; ++j) {
      if ((output == input && positions[j] != j) || (output == 2 * input && positions[j] != j / 2)) return false;
    }
    if (is_backward && output % input != 0) count += input;
  }
  return count <= kMostPositions && !at::isComplexType(node.dtype()) &&
         std::count(inputs.begin(), inputs.end(), 0) == 0;
}

constexpr LoweringRow kUpsamplingRows[] = {
    {"aten.upsample_nearest1d", upsample_nearest<1>, is_certain_nearest<1, 2>},
    {"aten.upsample_nearest2d", upsample_nearest<2>, is_certain_nearest<2, 2>},
    {"aten.upsample_nearest3d", upsample_nearest<3>, is_certain_nearest<3, 2>},
    {"aten.upsample_nearest1d_backward", upsample_nearest_backward<1>, is_certain_nearest<1, 3>},
    {"aten.upsample_nearest2d_backward", upsample_nearest_backward<2>, is_certain_nearest<2, 3>},
    {"aten.upsample_nearest3d_backward", upsample_nearest_backward<3>, is_certain_nearest<3, 3>},
    {"aten._upsample_nearest_exact1d", upsample_nearest<1, true>, is_certain_nearest<1, 2, true>},
    {"aten._upsample_nearest_exact2d", upsample_nearest<2, true>, is_certain_nearest<2, 2, true>},
    {"aten._upsample_nearest_exact3d", upsample_nearest<3, true>, is_certain_nearest<3, 2, true>},
    {"aten._upsample_nearest_exact1d_backward", upsample_nearest_backward<1, true>, is_certain_nearest<1, 3, true>},
    {"aten._upsample_nearest_exact2d_backward", upsample_nearest_backward<2, true>, is_certain_nearest<2, 3, true>},
    {"aten._upsample_nearest_exact3d_backward", upsample_nearest_backward<3, true>, is_certain_nearest<3, 3, true>},
};

}  // namespace

std::span<const LoweringRow> upsampling_lowerings() { return kUpsamplingRows; }

}  // namespace diptych::detail
