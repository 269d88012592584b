// A torch::optim optimizer as a captured step reads and writes it: options as numbers, state as lists of tensors.
#pragma once
#include <torch/optim/optimizer.h>

#include <string_view>
#include <vector>

namespace diptych::detail {

/// What is known of one class of optimizers.
struct OptimizerClass {
  const std::type_info* type;
  std::string_view rule;  ///< of update_rules.h
  std::vector<std::string_view> state_names;
  /// The options in the order of the rule's names.
  std::vector<double> (*options)(const torch::optim::OptimizerOptions& options);
  /// The number of a parameter's updates so far, and its state tensors, undefined where there are none.
  int64_t (*steps)(const torch::optim::OptimizerParamState& state);
  std::vector<at::Tensor> (*tensors)(const torch::optim::OptimizerParamState& state);
  std::unique_ptr<torch::optim::OptimizerParamState> (*make)(std::vector<at::Tensor> tensors);
  void (*set_steps)(torch::optim::OptimizerParamState& state, int64_t steps);
};

/// Returns the class of an optimizer. Errors: UserError if it is not exactly an SGD, Adam or AdamW.
const OptimizerClass& class_of(const torch::optim::Optimizer& optimizer);

}  // namespace diptych::detail
