// The largest element of each window and its place, and elements put back at their places.
#include <algorithm>
#include <limits>
#include <numeric>

#include "diptych/xla/hlo/lowering_windows.h"
#include "diptych/xla/hlo/reduction_parts.h"

namespace diptych::detail {
namespace {

constexpr PoolOperands kMaximumOperands{1, 2, 3, 4};
// Windows are unrolled, element by element: larger ones go to the interpreter.
constexpr int64_t kLargestWindow = 200;

// For each window the number in its plane of its first element, which may lie in the padding, or else of its first
// element inside: a tensor of the windows' sizes.
Hlo window_begins(HloWriter& writer, const PoolWindows& windows, bool is_inside) {
  Hlo sum;
  int64_t stride = 1;
  for (size_t i = windows.rank(); i-- > 0; stride *= windows.inputs[i]) {
    std::vector<int64_t> places;
    for (int64_t position = 0; position < windows.outputs[i]; ++position) {
      int64_t begin = windows.begin(i, position);
      while (is_inside && begin < 0) begin += windows.dilation[i];
      places.push_back(begin * stride);
    }
    const Hlo table =
        writer.broadcast(writer.constant_list(places, at::kInt), windows.outputs, {static_cast<int64_t>(i)});
    sum = sum.name.empty() ? table : writer.binary("add", sum, table);
  }
  return sum;
}

Hlo over_planes(HloWriter& writer, const Hlo& x, int64_t planes) {
  std::vector<int64_t> sizes{planes}, dims;
  sizes.insert(sizes.end(), x.sizes.begin(), x.sizes.end());
  for (int64_t i = 1; i <= x.dim(); ++i) dims.push_back(i);
  return writer.broadcast(x, sizes, dims);
}

// Goes through the elements of a window in eager's order: an element takes the place of the largest so far if it is
// larger, or NaN. The first of equal ones stays, and the last NaN.
class MaximumPooling {
 public:
  MaximumPooling(HloWriter& writer, const PoolWindows& windows, const Hlo& planes)
      : writer_(writer), windows_(windows) {
    const Hlo lowest = writer.constant(lowest_of(planes.dtype), planes.dtype);
    std::vector<int64_t> low(1, 0), high(1, 0), interior(planes.sizes.size(), 0);
    low.insert(low.end(), windows.padding.begin(), windows.padding.end());
    for (size_t i = 0; i < windows.rank(); ++i) high.push_back(windows.excess(i));
    padded_ = writer.pad(planes, lowest, low, high, interior);
    largest_ = over_planes(writer, writer.broadcast(lowest, windows.outputs, {}), planes.sizes[0]);
    places_ = over_planes(writer, window_begins(writer, windows, /*is_inside=*/true), planes.sizes[0]);
    begins_ = over_planes(writer, window_begins(writer, windows, /*is_inside=*/false), planes.sizes[0]);
  }

  std::pair<Hlo, Hlo> run() {
    std::vector<int64_t> offsets(windows_.rank(), 0);
    for (int64_t number = 0; number < windows_.count(); ++number) {
      visit(offsets);
      for (size_t i = windows_.rank(); i-- > 0;) {
        if (++offsets[i] < windows_.kernel[i]) break;
        offsets[i] = 0;
      }
    }
    return {largest_, places_};
  }

 private:
  void visit(const std::vector<int64_t>& offsets) {
    std::vector<int64_t> low(1, 0), high(1, padded_.sizes[0]), step(1, 1);
    int64_t place = 0;
    for (size_t i = 0; i < windows_.rank(); ++i) {
      const int64_t offset = offsets[i] * windows_.dilation[i];
      low.push_back(offset);
      high.push_back(offset + (windows_.outputs[i] - 1) * windows_.stride[i] + 1);
      step.push_back(windows_.stride[i]);
      place = place * windows_.inputs[i] + offset;
    }
    const Hlo candidate = writer_.slice(padded_, low, high, step);
    Hlo is_larger = writer_.compare("GT", candidate, largest_);
    if (at::isFloatingType(candidate.dtype)) {
      is_larger = writer_.binary("or", is_larger, writer_.compare("NE", candidate, candidate));
    }
    largest_ = writer_.select(is_larger, candidate, largest_);
    const Hlo offset = writer_.constant(place, at::kInt, places_.sizes);
    places_ = writer_.select(is_larger, writer_.binary("add", begins_, offset), places_);
  }

  HloWriter& writer_;
  const PoolWindows& windows_;
  Hlo padded_, largest_, places_, begins_;
};

std::vector<Hlo> pooled_maxima(const Lowering& node, const PoolWindows& windows) {
  HloWriter& writer = node.writer();
  const auto [values, places] =
      MaximumPooling(writer, windows, as_planes(writer, node.tensor(0), windows.rank())).run();
  return {writer.reshape(values, node.sizes()), writer.convert(writer.reshape(places, node.sizes(1)), at::kLong)};
}

template <size_t kRank>
PoolWindows maximum_windows(const Lowering& node) {
  return pool_windows(node, kRank, kMaximumOperands, operand_sizes(node, 0), node.sizes());
}
template <size_t kRank>
std::vector<Hlo> max_pool(const Lowering& node) {
  return pooled_maxima(node, maximum_windows<kRank>(node));
}

bool is_poolable(const Lowering& node, const PoolWindows& windows) {
  const auto dtype = operand_dtype(node, 0);
  return !at::isComplexType(dtype) && dtype != at::kBool && windows.count() <= kLargestWindow &&
         windows.plane() < std::numeric_limits<int32_t>::max();
}
template <size_t kRank>
bool is_max_pool(const Lowering& node) {
  return is_poolable(node, maximum_windows<kRank>(node));
}

// The windows of an adaptive pooling as if they were all alike; they are where sizes divide.
template <size_t kRank>
PoolWindows adaptive_windows(const Lowering& node) {
  PoolWindows windows = pool_windows(node, kRank, {-1, -1, -1, -1}, operand_sizes(node, 0), node.sizes());
  for (size_t i = 0; i < kRank; ++i) {
    windows.kernel[i] = windows.outputs[i] == 0 ? 0 : (windows.inputs[i] + windows.outputs[i] - 1) / windows.outputs[i];
  }
  windows.stride = windows.kernel;
  return windows;
}
bool are_alike(const PoolWindows& windows) {
  for (size_t i = 0; i < windows.rank(); ++i) {
    if (windows.kernel[i] * windows.outputs[i] != windows.inputs[i]) return false;
  }
  return true;
}
template <size_t kRank>
std::vector<Hlo> adaptive_max_pool(const Lowering& node) {
  const PoolWindows windows = adaptive_windows<kRank>(node);
  return are_alike(windows) ? pooled_maxima(node, windows) : uneven_maxima(node, kRank);
}
template <size_t kRank>
bool is_adaptive_max_pool(const Lowering& node) {
  const PoolWindows windows = adaptive_windows<kRank>(node);
  return windows.count() > 0 && windows.plane() > 0 && is_poolable(node, windows);
}

// Operand 0 at the places in each plane that operand `kIndices` tells, combined by a scatter's operation. Places come
// from the forward pass: eager refuses those outside of the plane, which are not looked for here.
template <size_t kRank, size_t kIndices>
Hlo at_places(const Lowering& node, std::string_view operation, at::ScalarType dtype) {
  HloWriter& writer = node.writer();
  const Hlo places = as_planes(writer, node.converted(kIndices, at::kLong), kRank);
  const int64_t planes = places.sizes[0];
  const int64_t total = std::accumulate(places.sizes.begin(), places.sizes.end(), int64_t{1}, std::multiplies<>());
  const auto sizes = node.sizes();
  const int64_t plane = std::accumulate(sizes.end() - kRank, sizes.end(), int64_t{1}, std::multiplies<>());
  const Hlo zeros = writer.constant(0, dtype, {planes * plane});
  if (total == 0) return writer.reshape(zeros, sizes);
  const Hlo number = writer.iota(at::kLong, places.sizes, 0);
  const Hlo begin = writer.binary("multiply", number, node.filled(plane, number));
  const Hlo coordinates = writer.reshape(writer.binary("add", begin, places), {total, 1});
  const Hlo updates = writer.reshape(node.converted(0, dtype), {total});
  return writer.reshape(writer.scatter_slices(operation, zeros, coordinates, updates), sizes);
}
template <size_t kRank, size_t kIndices>
std::vector<Hlo> max_pool_backward(const Lowering& node) {
  const Hlo sums = at_places<kRank, kIndices>(node, "add", Lowering::wide(node.dtype()));
  return {node.writer().convert(sums, node.dtype())};
}
// Windows that overlap give a place the same number; of other numbers the last one stays, as in eager.
template <size_t kRank>
std::vector<Hlo> max_unpool(const Lowering& node) {
  return {at_places<kRank, 1>(node, "", node.dtype())};
}

constexpr LoweringRow kMaximumPoolingRows[] = {
    {"aten.max_pool2d_with_indices", max_pool<2>, is_max_pool<2>},
    {"aten.max_pool3d_with_indices", max_pool<3>, is_max_pool<3>},
    {"aten.max_pool2d_with_indices_backward", max_pool_backward<2, 7>},
    {"aten.max_pool3d_with_indices_backward", max_pool_backward<3, 7>},
    {"aten.fractional_max_pool2d_backward", max_pool_backward<2, 4>},
    {"aten.fractional_max_pool3d_backward", max_pool_backward<3, 4>},
    {"aten.max_unpool2d", max_unpool<2>},
    {"aten.max_unpool3d", max_unpool<3>},
    {"aten.adaptive_max_pool2d", adaptive_max_pool<2>, is_adaptive_max_pool<2>},
    {"aten.adaptive_max_pool3d", adaptive_max_pool<3>, is_adaptive_max_pool<3>},
    {"aten.adaptive_max_pool2d_backward", max_pool_backward<2, 2>},
    {"aten.adaptive_max_pool3d_backward", max_pool_backward<3, 2>},
};

}  // namespace

std::span<const LoweringRow> maximum_pooling_lowerings() { return kMaximumPoolingRows; }

}  // namespace diptych::detail
