// The thread's and the process's state that changes what a function means, as a guard compares it.
#pragma once
#include <ATen/core/Tensor.h>

#include <string>

namespace diptych {

/// Grad mode, inference mode, autocast, the default dtype and the modes of kernels at one moment.
struct GlobalState {
  bool grad_mode = true;
  bool inference_mode = false;
  bool autocast_cpu = false;
  bool autocast_cuda = false;
  at::ScalarType autocast_cpu_dtype = at::kBFloat16;
  at::ScalarType autocast_cuda_dtype = at::kHalf;
  at::ScalarType default_dtype = at::kFloat;
  /// Switches that composite operators read while they are traced, and kernels while constants are computed: a bit for
  /// each row of a table in the source.
  uint32_t kernel_modes = 0;

  static GlobalState current();
  /// The state now, but with autocast off.
  static GlobalState without_autocast();
  /// Whether what matters to a backward pass is the same: autocast and the modes of kernels.
  bool same_for_backward(const GlobalState& other) const;
  bool operator==(const GlobalState&) const = default;
  /// "grad mode was on, is off"; empty if equal.
  std::string difference(const GlobalState& now) const;
};

}  // namespace diptych
