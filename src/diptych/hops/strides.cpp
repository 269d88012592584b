#include "diptych/hops/strides.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/zeros.h>

#include <numeric>

#include "diptych/trace/memory_order.h"

namespace diptych {
namespace {

// Whether the elements fill a block of memory, each its own place.
bool is_dense(const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides) {
  std::vector<size_t> order(sizes.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return strides[a] != strides[b] ? strides[a] < strides[b] : sizes[a] < sizes[b];
  });
  int64_t expected = 1;
  for (const size_t dim : order) {
    if (sizes[dim] == 0) return true;
    if (sizes[dim] == 1) continue;
    if (strides[dim] != expected) return false;
    expected *= sizes[dim];
  }
  return true;
}

at::TensorOptions options_of(const TensorMeta& meta) { return at::TensorOptions(meta.dtype).device(meta.device); }

}  // namespace

at::Tensor with_strides(const at::Tensor& tensor, const TensorMeta& meta) {
  if (tensor.is_conj() || tensor.is_neg()) return with_strides(tensor.resolve_conj().resolve_neg(), meta);
  const auto strides = meta.stride_hints();
  if (detail::has_layout(tensor, strides)) return tensor;
  if (!is_dense(meta.size_hints(), strides)) return tensor;
  return at::empty_strided(tensor.sizes(), strides, tensor.options()).copy_(tensor);
}

TensorMeta stacked(const TensorMeta& meta, int64_t length) {
  TensorMeta stack = is_dense(meta.size_hints(), meta.stride_hints()) ? meta : contiguous(meta);
  stack.sizes.insert(stack.sizes.begin(), SizeExpr(length));
  stack.strides.insert(stack.strides.begin(), SizeExpr(std::max<int64_t>(meta.numel(), 1)));
  return stack;
}

TensorMeta slice_of(const TensorMeta& stack) {
  TensorMeta slice = stack;
  slice.sizes.erase(slice.sizes.begin());
  slice.strides.erase(slice.strides.begin());
  return slice;
}

TensorMeta contiguous(TensorMeta meta) {
  meta.strides = contiguous_strides(meta.sizes);
  return meta;
}

at::Tensor empty_like_meta(const TensorMeta& meta) {
  return at::empty_strided(meta.size_hints(), meta.stride_hints(), options_of(meta));
}

at::Tensor zeros_like_meta(const TensorMeta& meta) { return at::zeros(meta.size_hints(), options_of(meta)); }

}  // namespace diptych
