#include "diptych/pair/spec.h"

#include <ATen/EmptyTensor.h>
#include <c10/core/Allocator.h>
#include <c10/core/Storage.h>
#include <c10/core/TensorImpl.h>
#include <fmt/ranges.h>

#include "diptych/base/check.h"
#include "diptych/graph/tensor_meta.h"
#include "diptych/pair/absent_devices.h"

namespace diptych {
namespace {

constexpr const char* kNoElements =
    "a spec has no elements: it stands for the tensors of its type in diptych::capture(), and nothing runs on it; pass "
    "a tensor";

// A tensor without dimensions, whose storage has a size and no memory.
at::Tensor without_memory(size_t bytes, at::ScalarType dtype, at::Device device) {
  dtype_name(dtype);  // refuses what no graph holds
  if (!device.is_cpu() && !device.is_meta() && !device.has_index()) device = {device.type(), 0};
  detail::have_guard(device.type());
  // A storage that could not be resized would be taken for memory that somebody else owns.
  c10::Storage storage(c10::Storage::use_byte_size_t(), bytes, c10::DataPtr(nullptr, device),
                       c10::GetAllocator(c10::kCPU), /*resizable=*/true);
  storage.unsafeGetStorageImpl()->release_data_and_set_meta_custom_data_ptr_error_msg_(kNoElements);
  return at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage), c10::DispatchKeySet(c10::computeDispatchKey(std::nullopt, c10::kStrided, device)),
      c10::scalarTypeToTypeMeta(dtype));
}

}  // namespace

at::Tensor spec(at::IntArrayRef sizes, at::ScalarType dtype, at::Device device) {
  for (const int64_t size : sizes)
    DIPTYCH_CHECK(size >= 0, "[spec] got the sizes [{}], expected none below 0", fmt::join(sizes, ", "));
  const size_t bytes = at::detail::computeStorageNbytesContiguous(sizes, c10::elementSize(dtype));
  at::Tensor tensor = without_memory(bytes, dtype, device);
  tensor.unsafeGetTensorImpl()->set_sizes_contiguous(sizes);
  return tensor;
}

at::Tensor spec_like(const at::Tensor& like, at::Device device) {
  DIPTYCH_CHECK(like.defined() && like.layout() == at::kStrided,
                "[spec_like] got {}, expected a strided tensor, meta or not",
                like.defined() ? "a sparse or packed tensor" : "an undefined tensor");
  const size_t bytes =
      at::detail::computeStorageNbytes(like.sizes(), like.strides(), c10::elementSize(like.scalar_type()));
  at::Tensor tensor = without_memory(bytes, like.scalar_type(), device);
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(like.sizes(), like.strides());
  return tensor.set_requires_grad(like.requires_grad());
}

}  // namespace diptych
