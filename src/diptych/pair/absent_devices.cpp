#include "diptych/pair/absent_devices.h"

#include <ATen/Context.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <algorithm>
#include <map>
#include <mutex>

namespace diptych::detail {
namespace {

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

}  // namespace

void have_guard(c10::DeviceType type) {
  if (is_there(type)) return;
  static auto* mutex = new std::mutex();
  static auto* ours = new std::map<c10::DeviceType, NoGuard>();
  const std::lock_guard lock(*mutex);
  const c10::impl::DeviceGuardImplRegistrar registrar(type, &ours->try_emplace(type, type).first->second);
}

WithoutCudnn::WithoutCudnn(const std::vector<at::Tensor>& arguments)
    : was_enabled_(at::globalContext().userEnabledCuDNN()) {
  const auto is_cuda = [](const at::Tensor& tensor) { return tensor.defined() && tensor.is_cuda(); };
  is_on_ = std::any_of(arguments.begin(), arguments.end(), is_cuda) && !is_there(c10::kCUDA);
  if (is_on_) at::globalContext().setUserEnabledCuDNN(false);
}

WithoutCudnn::~WithoutCudnn() {
  if (is_on_) at::globalContext().setUserEnabledCuDNN(was_enabled_);
}

}  // namespace diptych::detail
