// State of the thread and of the process that changes what a function means, for guards to compare.
#pragma once
#include <ATen/core/Tensor.h>

#include <string>

namespace diptych::detail {

/// Grad mode, inference mode, autocast, the default dtype and the modes of kernels at one moment.
struct GlobalState {
  bool grad_mode = true;
  bool inference_mode = false;
  bool autocast_cpu = false;
  bool autocast_cuda = false;
  at::ScalarType autocast_cpu_dtype = at::kBFloat16;
  at::ScalarType autocast_cuda_dtype = at::kHalf;
  at::ScalarType default_dtype = at::kFloat;
  /// Switches that composite operators read while they are traced, and kernels while constants are computed: one bit
  /// for each row of a table in global_state.cpp.
  uint32_t kernel_modes = 0;

  static GlobalState current();
  /// Returns the current state with autocast off.
  static GlobalState without_autocast();
  /// Whether the state that a backward depends on is the same: autocast and the modes of kernels.
  bool same_for_backward(const GlobalState& other) const;
  bool operator==(const GlobalState&) const = default;
  /// "grad mode was on, is off"; empty if equal.
  std::string difference(const GlobalState& now) const;
};

}  // namespace diptych::detail
