// Resizing by interpolation, linear and cubic, and its gradients: dimension after dimension, an output is a weighted
// sum of some of the input's positions. Source: ATen's UpSample.h and UpSampleKernel.cpp.
#include <algorithm>
#include <cmath>

#include "diptych/xla/hlo/lowering_windows.h"

namespace diptych::detail {
namespace {

/// One term of the sums: for each output a position of the input, and its weight. Where an output has fewer terms, the
/// position is -1.
struct Tap {
  std::vector<int64_t> positions;
  std::vector<double> weights;
};

/// How one dimension is resized. A scale of 0 is the sizes' quotient.
struct Resize {
  bool aligns_corners = false;
  double given_scale = 0;
  int64_t input = 0, output = 0;
};

template <typename Number>
Number step_of(const Resize& resize) {
  if (resize.aligns_corners) {
    return resize.output > 1 ? static_cast<Number>(resize.input - 1) / static_cast<Number>(resize.output - 1)
                             : Number{0};
  }
  return resize.given_scale > 0 ? static_cast<Number>(1.0 / resize.given_scale)
                                : static_cast<Number>(resize.input) / static_cast<Number>(resize.output);
}
template <typename Number>
Number place_of(const Resize& resize, int64_t i) {
  const Number step = step_of<Number>(resize);
  if (resize.aligns_corners) return step * static_cast<Number>(i);
  return static_cast<Number>(step * (static_cast<Number>(i) + Number{0.5}) - Number{0.5});
}

/// The tables of one way to interpolate, in the dtype that the kernel finds positions in.
using TapRule = std::vector<Tap> (*)(at::ScalarType dtype, const Resize& resize);

template <typename Number>
std::vector<Tap> linear_taps_in(const Resize& resize) {
  std::vector<Tap> taps(2);
  for (int64_t i = 0; i < resize.output; ++i) {
    const Number place = std::max(place_of<Number>(resize, i), Number{0});
    const int64_t low = std::min(static_cast<int64_t>(std::floor(place)), resize.input - 1);
    const Number weight = std::min(std::max(place - static_cast<Number>(low), Number{0}), Number{1});
    taps[0].positions.push_back(low);
    taps[1].positions.push_back(low < resize.input - 1 ? low + 1 : low);
    taps[0].weights.push_back(static_cast<double>(Number{1} - weight));
    taps[1].weights.push_back(static_cast<double>(weight));
  }
  return taps;
}

// Cubic convolution, near and between the neighbours. Source: en.wikipedia.org/wiki/Bicubic_interpolation.
template <typename Number>
Number near_cubic(Number x, Number a) {
  return ((a + 2) * x - (a + 3)) * x * x + 1;
}
template <typename Number>
Number far_cubic(Number x, Number a) {
  return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
}
template <typename Number>
std::vector<Tap> cubic_taps_in(const Resize& resize) {
  const Number a{-0.75};
  std::vector<Tap> taps(4);
  for (int64_t i = 0; i < resize.output; ++i) {
    const Number place = place_of<Number>(resize, i);
    const int64_t low = std::min(static_cast<int64_t>(std::floor(place)), resize.input - 1);
    const Number t = std::min(std::max(place - static_cast<Number>(low), Number{0}), Number{1}), rest = 1 - t;
    const Number weights[] = {far_cubic(t + 1, a), near_cubic(t, a), near_cubic(rest, a), far_cubic(rest + 1, a)};
    for (int64_t j = 0; j < 4; ++j) {
      taps[j].positions.push_back(std::clamp<int64_t>(low + j - 1, 0, resize.input - 1));
      taps[j].weights.push_back(static_cast<double>(weights[j]));
    }
  }
  return taps;
}

template <typename Number>
Number triangle_filter(Number x) {
  return std::max(1 - std::abs(x), Number{0});
}
template <typename Number>
Number cubic_filter(Number x) {
  const Number size = std::abs(x), a{-0.5};
  if (size < 1) return near_cubic(size, a);
  return size < 2 ? far_cubic(size, a) : Number{0};
}

// A smaller output takes a filter that is as much wider; the weights of each output are divided by their sum.
template <typename Number, Number (*kFilter)(Number), int kWidth>
std::vector<Tap> filter_taps_in(const Resize& resize) {
  const Number step = step_of<Number>(resize), half_width = Number{kWidth} / 2;
  const Number support = step >= 1 ? half_width * step : half_width, inverse = step >= 1 ? 1 / step : Number{1};
  const auto most = static_cast<int64_t>(std::ceil(support)) * 2 + 1;
  std::vector<Tap> taps(most, {std::vector<int64_t>(resize.output, -1), std::vector<double>(resize.output, 0)});
  for (int64_t i = 0; i < resize.output; ++i) {
    const Number center = step * (static_cast<Number>(i) + Number{0.5});
    const int64_t begin = std::max(static_cast<int64_t>(center - support + Number{0.5}), int64_t{0});
    const int64_t end = std::min(static_cast<int64_t>(center + support + Number{0.5}), resize.input);
    const int64_t count = std::clamp<int64_t>(end - begin, 0, most);
    std::vector<Number> weights;
    Number total = 0;
    for (int64_t j = 0; j < count; ++j) {
      weights.push_back(kFilter((static_cast<Number>(j + begin) - center + Number{0.5}) * inverse));
      total += weights.back();
    }
    for (int64_t j = 0; j < count; ++j) {
      taps[j].positions[i] = begin + j;
      taps[j].weights[i] = static_cast<double>(total == 0 ? weights[j] : weights[j] / total);
    }
  }
  std::erase_if(taps, [](const Tap& tap) {
    return std::all_of(tap.positions.begin(), tap.positions.end(), [](int64_t position) { return position < 0; });
  });
  return taps;
}

template <std::vector<Tap> (*kSingle)(const Resize&), std::vector<Tap> (*kDouble)(const Resize&)>
std::vector<Tap> taps_by_dtype(at::ScalarType dtype, const Resize& resize) {
  return dtype == at::kDouble ? kDouble(resize) : kSingle(resize);
}
constexpr TapRule kLinear = taps_by_dtype<linear_taps_in<float>, linear_taps_in<double>>;
constexpr TapRule kCubic = taps_by_dtype<cubic_taps_in<float>, cubic_taps_in<double>>;
constexpr TapRule kLinearFilter =
    taps_by_dtype<filter_taps_in<float, triangle_filter<float>, 2>, filter_taps_in<double, triangle_filter<double>, 2>>;
constexpr TapRule kCubicFilter =
    taps_by_dtype<filter_taps_in<float, cubic_filter<float>, 4>, filter_taps_in<double, cubic_filter<double>, 4>>;

// The term that a tap adds to every output; an output without it gets zero, whatever the input holds.
Hlo term_of(HloWriter& writer, const Hlo& x, int64_t dim, const Tap& tap) {
  auto positions = tap.positions;
  std::vector<int64_t> is_missing;
  for (int64_t& position : positions) {
    is_missing.push_back(position < 0 ? 1 : 0);
    position = std::max<int64_t>(position, 0);
  }
  const Hlo term =
      scale_along(writer, writer.take(x, writer.constant_list(positions, at::kInt), dim), dim, tap.weights);
  if (std::count(is_missing.begin(), is_missing.end(), 1) == 0) return term;
  const Hlo mask = writer.convert(writer.constant_list(is_missing, at::kInt), at::kBool);
  return writer.select(writer.broadcast(mask, term.sizes, {dim}), writer.constant(0, x.dtype, term.sizes), term);
}

template <size_t kRank, const TapRule* kRule>
std::vector<Hlo> interpolate(const Lowering& node) {
  HloWriter& writer = node.writer();
  Hlo x = node.converted(0, Lowering::wide(node.dtype()));
  for (size_t i = kRank; i-- > 0;) {
    const auto dim = static_cast<int64_t>(i) + 2;
    const Resize resize{node.flag(2), node.number(3 + i), x.sizes[dim], node.sizes()[dim]};
    Hlo sum;
    for (const Tap& tap : (*kRule)(x.dtype, resize)) {
      const Hlo term = term_of(writer, x, dim, tap);
      sum = sum.name.empty() ? term : writer.binary("add", sum, term);
    }
    x = sum;
  }
  return {writer.convert(x, node.dtype())};
}

// Terms go back to the positions that they came from; those of position -1 are skipped.
template <size_t kRank, const TapRule* kRule>
std::vector<Hlo> interpolate_backward(const Lowering& node) {
  HloWriter& writer = node.writer();
  const auto inputs = node.sizes();
  Hlo y = node.converted(0, Lowering::wide(node.dtype()));
  for (size_t i = 0; i < kRank; ++i) {
    const auto dim = static_cast<int64_t>(i) + 2;
    const Resize resize{node.flag(3), node.number(4 + i), inputs[dim], y.sizes[dim]};
    // Rows are added along dimension 0.
    const Hlo first = writer.swap_dims(y, 0, dim);
    auto sizes = first.sizes;
    sizes[0] = inputs[dim];
    Hlo sum = writer.constant(0, y.dtype, sizes);
    for (const Tap& tap : (*kRule)(y.dtype, resize)) {
      const Hlo rows = scale_along(writer, first, 0, tap.weights);
      sum = writer.scatter_along("add", sum, 0, writer.constant_list(tap.positions, at::kInt), rows);
    }
    y = writer.swap_dims(sum, 0, dim);
  }
  return {writer.convert(y, node.dtype())};
}

bool is_float_resize(const Lowering& node) {
  const auto first = operand_sizes(node, 0), second = node.sizes();
  return at::isFloatingType(node.dtype()) && std::count(first.begin(), first.end(), 0) == 0 &&
         std::count(second.begin(), second.end(), 0) == 0;
}
// ATen's filters of half types round on the way, between dimensions.
bool is_single_or_double_resize(const Lowering& node) {
  return (node.dtype() == at::kFloat || node.dtype() == at::kDouble) && is_float_resize(node);
}

constexpr LoweringRow kInterpolationRows[] = {
    {"aten.upsample_linear1d", interpolate<1, &kLinear>, is_float_resize},
    {"aten.upsample_bilinear2d", interpolate<2, &kLinear>, is_float_resize},
    {"aten.upsample_trilinear3d", interpolate<3, &kLinear>, is_float_resize},
    {"aten.upsample_bicubic2d", interpolate<2, &kCubic>, is_float_resize},
    {"aten._upsample_bilinear2d_aa", interpolate<2, &kLinearFilter>, is_single_or_double_resize},
    {"aten._upsample_bicubic2d_aa", interpolate<2, &kCubicFilter>, is_single_or_double_resize},
    {"aten.upsample_linear1d_backward", interpolate_backward<1, &kLinear>, is_float_resize},
    {"aten.upsample_bilinear2d_backward", interpolate_backward<2, &kLinear>, is_float_resize},
    {"aten.upsample_trilinear3d_backward", interpolate_backward<3, &kLinear>, is_float_resize},
    {"aten.upsample_bicubic2d_backward", interpolate_backward<2, &kCubic>, is_float_resize},
    {"aten._upsample_bilinear2d_aa_backward", interpolate_backward<2, &kLinearFilter>, is_single_or_double_resize},
    {"aten._upsample_bicubic2d_aa_backward", interpolate_backward<2, &kCubicFilter>, is_single_or_double_resize},
};

}  // namespace

std::span<const LoweringRow> interpolation_lowerings() { return kInterpolationRows; }

}  // namespace diptych::detail
