// hop.update_parameters: an optimizer's update of its parameters and its state, in place, as one node of a graph.
#pragma once
#include <ATen/core/Tensor.h>

#include <string>
#include <string_view>
#include <vector>

#include "diptych/backward/eager_nodes.h"

namespace diptych::detail {

/// One parameter that is updated.
struct UpdatedParameter {
  int64_t group = 0;               ///< whose options and learning rate apply to it
  int64_t position = 0;            ///< of its step number in UpdateTensors::steps
  MaybeUndefined maybe_undefined;  ///< of its gradient; where that turns out undefined, the parameter is left alone
};

/// What an update does, apart from its tensors.
struct UpdatePlan {
  std::string rule;                          ///< "sgd", "adam" or "adamw"
  std::vector<std::vector<double>> options;  ///< per group, by the rule's names
  std::vector<UpdatedParameter> parameters;
};

struct UpdateTensors {
  std::vector<at::Tensor> parameters, gradients;
  std::vector<at::Tensor> states;  ///< those of the first parameter, then those of the second, ...
  /// int64 [number of parameters, updated or not], on the CPU: how many updates each has had; the update adds one.
  /// kNoState says that a parameter's state is memory without values yet.
  at::Tensor steps;
  at::Tensor learning_rates;  ///< float64 [groups], on the CPU
};
inline constexpr int64_t kNoState = -1;

const HopSchema& update_parameters_schema();

/// Returns the names of a rule's options, in the order of a plan's values; flags are 0 or 1.
const std::vector<std::string_view>& option_names(std::string_view rule);
/// Returns how many tensors of state a parameter has.
size_t num_states(std::string_view rule, const std::vector<double>& options);

/// Updates the parameters as torch::optim does, by ATen's fused kernels, which go through memory once; tensors that are
/// not laid out as their parameter are copied. Parameters and state count as written to (their versions change), also
/// where torch::optim hides this from autograd. In a trace the update is recorded, and happens when the graph runs.
/// Requires: gradients and states are strided, of their parameter's sizes and dtype.
void update_parameters(const UpdatePlan& plan, UpdateTensors tensors);

}  // namespace diptych::detail
