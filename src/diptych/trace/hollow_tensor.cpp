#include "diptych/trace/hollow_tensor.h"

#include <c10/core/Storage.h>
#include <c10/core/TensorImpl.h>

namespace diptych::detail {

at::Tensor hollow_like(const at::Tensor& like, at::IntArrayRef sizes, at::IntArrayRef strides) {
  c10::Storage storage(c10::Storage::use_byte_size_t(), /*size_bytes=*/0, at::DataPtr(nullptr, like.device()),
                       /*allocator=*/nullptr, /*resizable=*/false);
  auto hollow = at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage), c10::DispatchKeySet(like.key_set().highestBackendKey()), like.dtype());
  hollow.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides, like.storage_offset());
  if (like.is_conj()) hollow._set_conj(true);
  if (like.is_neg()) hollow._set_neg(true);
  if (like.requires_grad()) hollow.set_requires_grad(true);
  return hollow;
}

}  // namespace diptych::detail
