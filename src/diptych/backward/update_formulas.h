// An optimizer's update as ATen operators out of place, for graphs that hold new values and change nothing.
#pragma once
#include <ATen/core/Tensor.h>

#include <string_view>
#include <vector>

namespace diptych::detail {

/// A parameter before an update, or after it.
struct UpdatedTensors {
  at::Tensor parameter;
  std::vector<at::Tensor> states;  ///< in the order of the rule's
};

/// Returns what an update of a parameter makes of it and of its state, by the formulas of torch::optim. Half types are
/// computed in float32, as its fused kernels do.
/// `number`: of this update from 1, and `rate`: the learning rate, both float64 scalars. Before the first update the
/// states are zeros. `options` are by the rule's names (update_parameters.h).
/// Source: torch/optim/sgd.py, adam.py, adamw.py and the fused kernels in ATen/native/cpu.
UpdatedTensors updated(std::string_view rule, const std::vector<double>& options, const UpdatedTensors& before,
                       const at::Tensor& gradient, const at::Tensor& number, const at::Tensor& rate);

}  // namespace diptych::detail
