// The dimensions of a dense tensor in the order in which they lie in memory.
#pragma once
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace diptych::detail {

/// The dimensions, the one of the largest stride first, and the permutation that undoes this.
struct MemoryOrder {
  explicit MemoryOrder(c10::IntArrayRef strides) : order(strides.size()), inverse(strides.size()) {
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return strides[a] > strides[b]; });
    for (size_t i = 0; i < order.size(); ++i) inverse[order[i]] = static_cast<int64_t>(i);
  }
  std::vector<int64_t> order;
  std::vector<int64_t> inverse;
};

}  // namespace diptych::detail
