#include "diptych/pair/spec.h"

#include <ATen/Context.h>
#include <ATen/EmptyTensor.h>
#include <c10/core/Allocator.h>
#include <c10/core/Storage.h>
#include <c10/core/TensorImpl.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <fmt/ranges.h>

#include <map>
#include <mutex>

#include "diptych/base/check.h"
#include "diptych/graph/tensor_meta.h"

namespace diptych {
namespace {

constexpr const char* kNoElements =
    "a spec has no elements: it stands for the tensors of its type in diptych::capture(), and nothing runs on it; pass "
    "a tensor";

// Autograd asks a device's guard for streams, which no capture uses.
class NoGuard final : public c10::impl::DeviceGuardImplInterface {
 public:
  explicit NoGuard(c10::DeviceType type) : type_(type) {}
  c10::DeviceType type() const override { return type_; }
  c10::Device exchangeDevice(c10::Device) const override { return first(); }
  c10::Device getDevice() const override { return first(); }
  void setDevice(c10::Device) const override {}
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::Stream getStream(c10::Device device) const noexcept override {
    return c10::Stream(c10::Stream::DEFAULT, device);
  }
  c10::Stream exchangeStream(c10::Stream stream) const noexcept override { return stream; }
  c10::DeviceIndex deviceCount() const noexcept override { return 0; }

 private:
  c10::Device first() const { return {type_, 0}; }
  c10::DeviceType type_;
};

// Asks torch, not the guard: that of torch's own fake tensors counts devices which are not there.
bool is_there(c10::DeviceType type) {
  if (type == c10::kCPU || type == c10::kMeta) return true;
  if (at::isAccelerator(type)) return at::globalContext().getAcceleratorHooksInterface(type).deviceCount() > 0;
  return c10::impl::hasDeviceGuardImpl(type);
}

void have_guard(c10::DeviceType type) {
  if (is_there(type)) return;
  static auto* mutex = new std::mutex();
  static auto* ours = new std::map<c10::DeviceType, NoGuard>();
  const std::lock_guard lock(*mutex);
  const c10::impl::DeviceGuardImplRegistrar registrar(type, &ours->try_emplace(type, type).first->second);
}

// A tensor without dimensions, whose storage has a size and no memory.
at::Tensor without_memory(size_t bytes, at::ScalarType dtype, at::Device device) {
  dtype_name(dtype);  // refuses what no graph holds
  if (!device.is_cpu() && !device.is_meta() && !device.has_index()) device = {device.type(), 0};
  have_guard(device.type());
  // A storage that could not be resized would be taken for memory that somebody else owns.
  c10::Storage storage(c10::Storage::use_byte_size_t(), bytes, c10::DataPtr(nullptr, device),
                       c10::GetAllocator(c10::kCPU), /*resizable=*/true);
  storage.unsafeGetStorageImpl()->release_data_and_set_meta_custom_data_ptr_error_msg_(kNoElements);
  return at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage), c10::DispatchKeySet(c10::computeDispatchKey(std::nullopt, c10::kStrided, device)),
      c10::scalarTypeToTypeMeta(dtype));
}

}  // namespace

detail::WithoutCudnn::WithoutCudnn(const std::vector<at::Tensor>& arguments)
    : was_enabled_(at::globalContext().userEnabledCuDNN()), is_on_(false) {
  for (const at::Tensor& tensor : arguments) is_on_ |= tensor.defined() && tensor.is_cuda() && !is_there(c10::kCUDA);
  if (is_on_) at::globalContext().setUserEnabledCuDNN(false);
}

detail::WithoutCudnn::~WithoutCudnn() {
  if (is_on_) at::globalContext().setUserEnabledCuDNN(was_enabled_);
}

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
