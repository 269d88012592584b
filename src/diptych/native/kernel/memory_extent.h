// How much memory tensors take.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace diptych::detail {

/// Blocks of memory begin with a cache line, which is as long as the longest vector.
inline constexpr int64_t kCacheLine = 64;

/// Returns the multiple of `unit` from `size` on.
template <class Int>
constexpr Int rounded_up(Int size, Int unit) {
  return (size + unit - 1) / unit * unit;
}

/// Returns the elements from the first one to behind the last, gaps included; 0 where there are none. Requires: strides
/// that are not negative.
inline int64_t span_of(const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides) {
  int64_t last = 0;
  for (size_t dim = 0; dim < sizes.size(); ++dim) {
    if (sizes[dim] == 0) return 0;
    last += (sizes[dim] - 1) * strides[dim];
  }
  return last + 1;
}

}  // namespace diptych::detail
