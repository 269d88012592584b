// Captures of tensors on devices that this machine does not have.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/core/DeviceType.h>

#include <vector>

namespace diptych::detail {

/// Gives a device type of which this machine has no device a guard that does nothing, which stays as long as the
/// program runs. Threads: any.
void have_guard(c10::DeviceType type);

/// Keeps LibTorch from choosing cuDNN's operators, whose shapes only cuDNN knows, while it lives, if an argument lies
/// on a CUDA device and this machine has none. The setting is the process's: captures that run beside it see it as
/// well.
class WithoutCudnn {
 public:
  explicit WithoutCudnn(const std::vector<at::Tensor>& arguments);
  ~WithoutCudnn();
  WithoutCudnn(const WithoutCudnn&) = delete;
  WithoutCudnn& operator=(const WithoutCudnn&) = delete;

 private:
  bool was_enabled_, is_on_ = false;
};

}  // namespace diptych::detail
