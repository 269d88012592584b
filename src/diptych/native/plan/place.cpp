#include "diptych/native/plan/place.h"

#include <numeric>

#include "diptych/native/kernel/memory_extent.h"

namespace diptych::detail {

int64_t Place::numel() const { return std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>()); }

int64_t Place::span() const { return span_of(sizes, strides) * itemsize(); }

bool Place::is_dense() const { return detail::is_dense(sizes, strides); }

bool Place::has_strides(const std::vector<int64_t>& wanted) const {
  if (wanted.size() != strides.size()) return false;
  for (size_t dim = 0; dim < sizes.size(); ++dim) {
    if (sizes[dim] != 1 && strides[dim] != wanted[dim]) return false;
  }
  return true;
}

Place place_of(const TensorMeta& meta, int32_t region) {
  return {region, 0, meta.dtype, meta.size_hints(), meta.stride_hints()};
}

at::Tensor make_window(const Place& place) {
  c10::Storage memory(c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), place.span(),
                                                            at::DataPtr(nullptr, c10::kCPU), nullptr, false));
  auto window = at::detail::make_tensor<c10::TensorImpl>(std::move(memory), c10::DispatchKeySet(c10::DispatchKey::CPU),
                                                         c10::scalarTypeToTypeMeta(place.dtype));
  window.unsafeGetTensorImpl()->set_sizes_and_strides(place.sizes, place.strides);
  return window;
}

void point_at(const at::Tensor& window, char* data) {
  window.storage().unsafeGetStorageImpl()->set_data_ptr_noswap(at::DataPtr(data, c10::kCPU));
}

}  // namespace diptych::detail
