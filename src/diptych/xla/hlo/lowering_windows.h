// Windows over the last dimensions of a tensor, for pooling and resizing: how many there are, and sums over them.
#pragma once
#include <vector>

#include "diptych/xla/hlo/lowering.h"

namespace diptych::detail {

/// The windows of a pooling, with an entry for each pooled dimension, and the sizes that they make.
struct PoolWindows {
  std::vector<int64_t> kernel, stride, padding, dilation;
  std::vector<int64_t> inputs, outputs;

  size_t rank() const { return kernel.size(); }
  int64_t count() const;  ///< elements in a window
  int64_t plane() const;  ///< elements of the input that are pooled together
  int64_t span(size_t i) const { return dilation[i] * (kernel[i] - 1) + 1; }
  /// Where window `position` begins, before the input's first element if there is padding.
  int64_t begin(size_t i, int64_t position) const { return position * stride[i] - padding[i]; }
  /// How far the last window reaches beyond the input's end; at least 0.
  int64_t excess(size_t i) const;
};

/// The positions of operands in a schema; an operand that it lacks is -1.
struct PoolOperands {
  int kernel, stride, padding, dilation;
};

/// Reads the windows over the last `rank` dimensions. A list of one entry stands for all dimensions; an empty stride is
/// the kernel's size.
PoolWindows pool_windows(const Lowering& node, size_t rank, const PoolOperands& operands,
                         const std::vector<int64_t>& input, const std::vector<int64_t>& output);

/// The sizes of operand `index`, which is a tensor.
std::vector<int64_t> operand_sizes(const Lowering& node, size_t index);

/// The tensor with its leading dimensions as one: (planes, the last `rank` dimensions).
Hlo as_planes(HloWriter& writer, const Hlo& x, size_t rank);

/// A range of positions along one dimension.
struct Stretch {
  int64_t begin, end;
};
/// The windows of adaptive pooling: from floor(i * inputs / outputs) to ceil((i + 1) * inputs / outputs).
std::vector<Stretch> adaptive_stretches(int64_t inputs, int64_t outputs);
/// The largest element of each adaptive window over the last `rank` dimensions, and its place in the plane.
std::vector<Hlo> uneven_maxima(const Lowering& node, size_t rank);
/// The sum over each stretch along `dim`: dimension `dim` of the result counts stretches. An empty stretch gives 0.
Hlo sum_stretches(HloWriter& writer, const Hlo& x, int64_t dim, const std::vector<Stretch>& stretches);
/// The gradient of sum_stretches: each row of `y` is added to all positions of its stretch, out of `size`.
/// Requires: begins and ends do not decrease.
Hlo spread_stretches(HloWriter& writer, const Hlo& y, int64_t dim, const std::vector<Stretch>& stretches, int64_t size);

/// Multiplies along `dim` with a number for each position.
Hlo scale_along(HloWriter& writer, const Hlo& x, int64_t dim, const std::vector<double>& factors);
/// A tensor of `sizes` that holds values[i] at position i along `dim`.
Hlo table_along(HloWriter& writer, const std::vector<double>& values, at::ScalarType dtype,
                const std::vector<int64_t>& sizes, int64_t dim);

}  // namespace diptych::detail
