// Images and volumes sampled at the points of a grid, and the gradients. Source: ATen's GridSampler.h.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "diptych/xla/hlo/hlo_term.h"
#include "diptych/xla/hlo/index_positions.h"

namespace diptych::detail {
namespace {

enum class Interpolation : int64_t { kLinear, kNearest, kCubic };
enum class GridPadding : int64_t { kZeros, kBorder, kReflection };

/// A coordinate in elements, and its derivative by the grid's number.
struct GridPlace {
  HloTerm at, slope;
};
/// An element along one dimension that a point is made of: its position, its weight, and the weight's derivative by the
/// grid's number.
struct GridTap {
  HloTerm at, weight, slope;
};
using Corner = std::vector<const GridTap*>;

/// One dimension of the image.
class GridDimension {
 public:
  GridDimension(int64_t size, const Lowering& node, size_t first, size_t rank)
      : size_(static_cast<double>(size)),
        interpolation_(static_cast<Interpolation>(node.integer(first))),
        padding_(static_cast<GridPadding>(node.integer(first + 1))),
        aligns_corners_(node.flag(first + 2)),
        is_volume_(rank == 3) {}

  std::vector<GridTap> taps(const HloTerm& number) const {
    if (interpolation_ == Interpolation::kCubic) return cubic_taps(number);
    const GridPlace place = padded(unnormalized(number));
    if (interpolation_ == Interpolation::kNearest) {
      return {{place.at.unary("round_nearest_even"), place.at.like(1), place.at.like(0)}};
    }
    const HloTerm low = place.at.unary("floor"), weight = place.at - low;
    return {{low, 1.0 - weight, -place.slope}, {low + 1.0, weight, place.slope}};
  }
  HloTerm is_inside(const HloTerm& at) const { return (at > -1.0) & (at < size_); }

 private:
  GridPlace unnormalized(const HloTerm& number) const {
    const double scale = (aligns_corners_ ? size_ - 1 : size_) / 2;
    // The product is rounded before the subtraction: eager has no fused operation here.
    const HloTerm place = ((number + 1.0) * scale).opaque();
    return {aligns_corners_ ? place : place - 0.5, place.like(scale)};
  }

  GridPlace padded(const GridPlace& place) const {
    GridPlace result = place;
    if (padding_ == GridPadding::kReflection) result = reflected(result);
    if (padding_ != GridPadding::kZeros) result = clipped(result);
    // Of volumes a coordinate that an integer cannot hold lies outside; of images it is not looked at.
    if (is_volume_) result.at = (result.at.abs() < 2147483646.0).choose(result.at, -100.0);
    return result;
  }

  // NaN is the first position of an image, and the last of a volume. At the borders the gradient is zero.
  GridPlace clipped(const GridPlace& place) const {
    const HloTerm& x = place.at;
    const double last = size_ - 1;
    const HloTerm inside = minimum(maximum(x, x.like(0)), x.like(last));
    return {x.is_nan().choose(is_volume_ ? last : 0.0, inside),
            ((x > 0.0) & (x < last)).choose(place.slope, place.slope.like(0))};
  }

  // Back and forth between the middles of the outer elements, or their outer edges.
  GridPlace reflected(const GridPlace& place) const {
    const double low = aligns_corners_ ? 0 : -0.5, twice_span = 2 * (aligns_corners_ ? size_ - 1 : size_);
    if (twice_span == 0) return {place.at.like(0), place.slope.like(0)};
    const HloTerm shifted = place.at - low, distance = shifted.abs();
    const HloTerm extra = distance - (distance / twice_span).unary("floor") * twice_span, back = twice_span - extra;
    const HloTerm turns = (extra > back).binary("xor", shifted < 0.0);
    return {minimum(extra, back) + low, turns.choose(-place.slope, place.slope)};
  }

  std::vector<GridTap> cubic_taps(const HloTerm& number) const {
    constexpr double kA = -0.75;
    const GridPlace place = unnormalized(number);
    const HloTerm low = place.at.unary("floor"), t = place.at - low;
    std::vector<GridTap> taps;
    for (int64_t i = 0; i < 4; ++i) {
      // The distance to the tap, and which way it grows.
      const bool is_before = i < 2, is_outer = i == 0 || i == 3;
      const HloTerm x = i == 0 ? t + 1.0 : i == 1 ? t : i == 2 ? 1.0 - t : 2.0 - t;
      const HloTerm weight =
          is_outer ? ((x * kA - 5 * kA) * x + 8 * kA) * x - 4 * kA : (x * (kA + 2) - (kA + 3)) * x * x + 1.0;
      const HloTerm slope = is_outer ? (x * (3 * kA) - 10 * kA) * x + 8 * kA : (x * (3 * (kA + 2)) - 2 * (kA + 3)) * x;
      const double offset = static_cast<double>(i - 1);
      taps.push_back({padded({low + offset, place.slope}).at, weight, (is_before ? slope : -slope) * place.slope});
    }
    return taps;
  }

  double size_;
  Interpolation interpolation_;
  GridPadding padding_;
  bool aligns_corners_, is_volume_;
};

/// The points of one node as a tensor (batch, points), and images with their channels last.
class GridSampling {
 public:
  /// `first` is the operand that holds the images.
  GridSampling(const Lowering& node, size_t first) : writer_(node.writer()) {
    const Hlo grid = node.tensor(first + 1), images = node.tensor(first);
    const int64_t rank = grid.sizes.back();
    batch_ = grid.sizes[0], channels_ = images.sizes[1];
    points_ = elements_of(grid.sizes) / batch_ / rank;
    images_ = channels_last(images);
    const Hlo numbers = writer_.reshape(grid, {batch_, points_, rank});
    for (int64_t i = 0; i < rank; ++i) {
      // The last number is that of the first dimension.
      const Hlo column = writer_.slice_along(numbers, 2, rank - 1 - i, rank - i);
      dims_.emplace_back(images.sizes[2 + i], node, first + 2, static_cast<size_t>(rank));
      taps_.push_back(dims_.back().taps({writer_, writer_.reshape(column, {batch_, points_})}));
    }
    visit_corners({});
  }

  size_t rank() const { return dims_.size(); }
  int64_t points() const { return points_; }
  const std::vector<Corner>& corners() const { return corners_; }
  const std::vector<int64_t>& image_sizes() const { return images_.sizes; }

  /// The product of a corner's weights, with the slope in place of the weight of dimension `sloped`; for each channel.
  HloTerm weight(const Corner& corner, int64_t sloped = -1) const {
    HloTerm product = sloped == 0 ? corner[0]->slope : corner[0]->weight;
    for (size_t i = 1; i < corner.size(); ++i) {
      product = product * (sloped == static_cast<int64_t>(i) ? corner[i]->slope : corner[i]->weight);
    }
    return over_channels(product);
  }
  /// The coordinates of a corner in the images, -1 where it lies outside.
  Hlo coordinates(const Corner& corner) const {
    std::vector<Hlo> parts{column(writer_.iota(at::kLong, {batch_, points_}, 0))};
    for (size_t i = 0; i < rank(); ++i) {
      const HloTerm at = dims_[i].is_inside(corner[i]->at).choose(corner[i]->at, -1.0);
      parts.push_back(column(at.to(at::kLong).value()));
    }
    return writer_.concatenate(parts, 2);
  }
  HloTerm values(const Corner& corner) const {
    const HloTerm found(writer_, writer_.gather_slices(images_, coordinates(corner)));
    HloTerm inside = dims_[0].is_inside(corner[0]->at);
    for (size_t i = 1; i < rank(); ++i) inside = inside & dims_[i].is_inside(corner[i]->at);
    return over_channels(inside).choose(found, 0.0);
  }
  /// (batch, channels, points...) as (batch, points, channels), and back.
  HloTerm as_points(const Hlo& x) const {
    return {writer_, writer_.transpose(writer_.reshape(x, {batch_, channels_, points_}), {0, 2, 1})};
  }
  Hlo from_points(const HloTerm& x, const std::vector<int64_t>& sizes) const {
    return writer_.reshape(writer_.transpose(x.value(), {0, 2, 1}), sizes);
  }
  Hlo channels_first(const Hlo& x) const {
    std::vector<int64_t> order{0, x.dim() - 1};
    for (int64_t i = 1; i + 1 < x.dim(); ++i) order.push_back(i);
    return writer_.transpose(x, order);
  }
  Hlo column(const Hlo& x) const { return writer_.reshape(x, {batch_, points_, 1}); }

 private:
  Hlo channels_last(const Hlo& x) const {
    std::vector<int64_t> order{0};
    for (int64_t i = 2; i < x.dim(); ++i) order.push_back(i);
    order.push_back(1);
    return writer_.transpose(x, order);
  }
  HloTerm over_channels(const HloTerm& x) const {
    return x.with(writer_.broadcast(x.value(), {batch_, points_, channels_}, {0, 1}));
  }
  // All choices of a tap for each dimension, in the order of elements.
  void visit_corners(const Corner& begun) {
    if (begun.size() == taps_.size()) return corners_.push_back(begun);
    for (const GridTap& tap : taps_[begun.size()]) {
      Corner longer = begun;
      longer.push_back(&tap);
      visit_corners(longer);
    }
  }

  HloWriter& writer_;
  Hlo images_;
  int64_t batch_ = 0, channels_ = 0, points_ = 0;
  std::vector<GridDimension> dims_;
  std::vector<std::vector<GridTap>> taps_;
  std::vector<Corner> corners_;
};

HloTerm weighted_sum(const GridSampling& grid, const std::vector<HloTerm>& values, int64_t sloped = -1) {
  HloTerm sum = values[0] * grid.weight(grid.corners()[0], sloped);
  for (size_t i = 1; i < values.size(); ++i) sum = sum + values[i] * grid.weight(grid.corners()[i], sloped);
  return sum;
}
std::vector<HloTerm> corner_values(const GridSampling& grid) {
  std::vector<HloTerm> values;
  for (const Corner& corner : grid.corners()) values.push_back(grid.values(corner));
  return values;
}

std::vector<Hlo> grid_sample(const Lowering& node) {
  const GridSampling grid(node, 0);
  return {grid.from_points(weighted_sum(grid, corner_values(grid)), node.sizes())};
}

// Each point's gradient is added to the elements that the point is made of.
Hlo image_gradient(const Lowering& node, const GridSampling& grid, const HloTerm& gradient) {
  HloWriter& writer = node.writer();
  std::vector<Hlo> coordinates, updates;
  for (const Corner& corner : grid.corners()) {
    coordinates.push_back(grid.coordinates(corner));
    updates.push_back((gradient * grid.weight(corner)).value());
  }
  const Hlo zeros = writer.constant(0, gradient.dtype(), grid.image_sizes());
  return grid.channels_first(
      writer.scatter_slices("add", zeros, writer.concatenate(coordinates, 1), writer.concatenate(updates, 1)));
}

Hlo grid_gradient(const Lowering& node, const GridSampling& grid, const HloTerm& gradient) {
  HloWriter& writer = node.writer();
  if (static_cast<Interpolation>(node.integer(3)) == Interpolation::kNearest)
    return writer.constant(0, gradient.dtype(), node.sizes(1));
  const auto values = corner_values(grid);
  std::vector<Hlo> columns;
  for (auto i = static_cast<int64_t>(grid.rank()); i-- > 0;) {
    const HloTerm slopes = weighted_sum(grid, values, i) * gradient;
    const Hlo zero = writer.constant(0, gradient.dtype());
    columns.push_back(grid.column(writer.reduce("add", slopes.value(), zero, {2})));
  }
  return writer.reshape(writer.concatenate(columns, 2), node.sizes(1));
}

std::vector<Hlo> grid_sample_backward(const Lowering& node) {
  const GridSampling grid(node, 1);
  const HloTerm gradient = grid.as_points(node.tensor(0));
  std::vector<Hlo> results(2);
  if (node.has_result(0)) results[0] = image_gradient(node, grid, gradient);
  if (node.has_result(1)) results[1] = grid_gradient(node, grid, gradient);
  return results;
}

// Half types are rounded in between by eager; it has no cubic volumes.
template <size_t kImages, size_t kRank>
bool is_plain_grid(const Lowering& node) {
  for (size_t i = 0; i < kImages + 2; ++i) {
    const TensorMeta* const meta = operand_meta(node, i);
    if (meta == nullptr || (meta->dtype != at::kFloat && meta->dtype != at::kDouble)) return false;
    if (meta->numel() == 0 || meta->numel() > std::numeric_limits<int32_t>::max()) return false;
  }
  const int64_t interpolation = node.integer(kImages + 2);
  return interpolation >= 0 && interpolation < (kRank == 2 ? 3 : 2);
}

constexpr LoweringRow kGridSamplingRows[] = {
    {"aten.grid_sampler_2d", grid_sample, is_plain_grid<0, 2>},
    {"aten.grid_sampler_3d", grid_sample, is_plain_grid<0, 3>},
    {"aten.grid_sampler_2d_backward", grid_sample_backward, is_plain_grid<1, 2>},
    {"aten.grid_sampler_3d_backward", grid_sample_backward, is_plain_grid<1, 3>},
};

}  // namespace

std::span<const LoweringRow> grid_sampling_lowerings() { return kGridSamplingRows; }

}  // namespace diptych::detail
