// The thread's state that changes what a function means, as a guard compares it.
#pragma once
#include <ATen/core/Tensor.h>

#include <string>

namespace diptych {

/// Grad mode, inference mode, autocast and the default dtype at one moment.
struct GlobalState {
  bool grad_mode = true;
  bool inference_mode = false;
  bool autocast_cpu = false;
  bool autocast_cuda = false;
  at::ScalarType autocast_cpu_dtype = at::kBFloat16;
  at::ScalarType autocast_cuda_dtype = at::kHalf;
  at::ScalarType default_dtype = at::kFloat;

  static GlobalState current();
  /// Whether the autocast state, which alone matters to a backward pass, is the same.
  bool same_autocast(const GlobalState& other) const;
  bool operator==(const GlobalState&) const = default;
  /// "grad mode was on, is off"; empty if equal.
  std::string difference(const GlobalState& now) const;
};

}  // namespace diptych
