// An optimizer as a captured step reads and writes it: options as numbers, state as lists of tensors.
#pragma once
#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

#include "diptych/backward/update_parameters.h"

namespace torch::optim {
class Optimizer;
}

namespace diptych::detail {

/// What an optimizer keeps for a parameter.
struct ParameterState {
  int64_t steps = kNoState;         ///< how many updates there have been; kNoState without state
  std::vector<at::Tensor> tensors;  ///< in the order of the rule's states, undefined where there is none
};

/// Parameters that are updated alike.
struct OptimizerGroup {
  std::vector<at::Tensor> parameters;
  std::vector<ParameterState> states;  ///< per parameter
  std::vector<double> options;         ///< in the order of the rule's options
  double learning_rate = 0;
  bool maximizes = false;  ///< whether the update follows the gradient, and not the way down
};

struct OptimizerContents {
  std::string rule;  ///< of update_rules.h
  std::vector<OptimizerGroup> groups;
};

/// An optimizer of any library. Threads: as the optimizer.
class OptimizerView {
 public:
  virtual ~OptimizerView() = default;
  /// Errors: UserError for what no rule describes, named.
  virtual OptimizerContents read() const = 0;
  /// Gives the optimizer the state of a parameter: tensors that take the place of what it has, or null to keep them.
  virtual void store(const at::Tensor& parameter, int64_t steps, const std::vector<at::Tensor>* tensors) const = 0;
};

/// Returns a view of an optimizer, which outlives it. Errors: UserError if it is not exactly an SGD, Adam or AdamW.
std::shared_ptr<const OptimizerView> view_of(torch::optim::Optimizer& optimizer);

}  // namespace diptych::detail
