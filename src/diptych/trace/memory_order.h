// The dimensions of a dense tensor in the order of memory, and tensors with the layout of others.
#pragma once
#include <ATen/core/Tensor.h>
#include <ATen/ops/clone.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace diptych::detail {

/// The dimensions by falling stride, and the permutation that undoes this order.
struct MemoryOrder {
  explicit MemoryOrder(c10::IntArrayRef strides) : order(strides.size()), inverse(strides.size()) {
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return strides[a] > strides[b]; });
    for (size_t i = 0; i < order.size(); ++i) inverse[order[i]] = static_cast<int64_t>(i);
  }
  std::vector<int64_t> order;
  std::vector<int64_t> inverse;
};

/// Whether the tensor has these strides; strides of dimensions of size 1 do not matter.
inline bool has_layout(const at::Tensor& tensor, c10::IntArrayRef strides) {
  for (int64_t d = 0; d < tensor.dim(); ++d) {
    if (tensor.size(d) != 1 && tensor.stride(d) != strides[d]) return false;
  }
  return true;
}

/// Whether the tensor's elements lie one after the other in memory, with its dimensions in this order.
inline bool is_dense_in_order(const at::Tensor& tensor, const MemoryOrder& memory) {
  int64_t next = 1;
  for (auto dim = memory.order.rbegin(); dim != memory.order.rend(); ++dim) {
    if (tensor.size(*dim) != 1 && tensor.stride(*dim) != next) return false;
    next *= tensor.size(*dim);
  }
  return true;
}

/// Returns a copy without gaps, with its dimensions in this order in memory.
inline at::Tensor clone_in_order(const at::Tensor& source, const MemoryOrder& memory) {
  return at::clone(source.permute(memory.order), at::MemoryFormat::Contiguous).permute(memory.inverse);
}

/// Returns the tensor if is_dense_in_order() holds for it, and a copy by clone_in_order() if not.
inline at::Tensor in_order(const at::Tensor& tensor, const MemoryOrder& memory) {
  return is_dense_in_order(tensor, memory) ? tensor : clone_in_order(tensor, memory);
}

}  // namespace diptych::detail
