#include "diptych/hops/strides.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/zeros.h>

#include "diptych/trace/memory_order.h"

namespace diptych {

using namespace detail;
namespace {

at::TensorOptions options_of(const TensorMeta& meta) { return at::TensorOptions(meta.dtype).device(meta.device); }

}  // namespace

at::Tensor with_strides(const at::Tensor& tensor, const TensorMeta& meta) {
  if (tensor.is_conj() || tensor.is_neg()) return with_strides(tensor.resolve_conj().resolve_neg(), meta);
  const auto strides = meta.stride_hints();
  if (detail::has_layout(tensor, strides)) return tensor;
  if (!is_dense(meta.size_hints(), strides)) return tensor;
  return at::empty_strided(tensor.sizes(), strides, tensor.options()).copy_(tensor);
}

at::Tensor empty_like_meta(const TensorMeta& meta) {
  return at::empty_strided(meta.size_hints(), meta.stride_hints(), options_of(meta));
}

at::Tensor zeros_like_meta(const TensorMeta& meta) { return at::zeros(meta.size_hints(), options_of(meta)); }

}  // namespace diptych
