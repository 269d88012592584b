// What an optimizer holds, read at one moment: options, learning rates, and the state of each parameter.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "diptych/backward/optimizer_view.h"

namespace diptych::detail {

/// One optimizer's parameters through all groups, in order, with what it keeps for each. Reading checks that a step can
/// hold them.
class OptimizerState {
 public:
  struct Entry {
    at::Tensor parameter;
    size_t group = 0;
    /// Of the parameter's sizes and dtype, by the rule's order; empty where there is none yet.
    std::vector<at::Tensor> tensors;
    int64_t steps = -1;  ///< how many updates there have been; kNoState without state
  };

  /// Errors: UserError for an optimizer, a parameter, its hooks or its state that a step can't hold, named.
  explicit OptimizerState(std::shared_ptr<const OptimizerView> optimizer);

  const std::string& rule() const { return rule_; }
  /// The names of the rule's states.
  const std::vector<std::string_view>& state_names() const;
  /// Per group, by the rule's names.
  const std::vector<std::vector<double>>& group_options() const { return group_options_; }
  /// Whether the updates of a group follow the gradients, and not the way down.
  bool maximizes(size_t group) const { return maximizes_[group]; }
  const std::vector<double>& learning_rates() const { return learning_rates_; }
  const std::vector<Entry>& entries() const { return entries_; }
  /// How many tensors of state a parameter has.
  size_t num_tensors(size_t index) const;
  /// "parameter 3 of group 0"
  std::string path_of(size_t index) const;
  /// The class, the groups and their options, but for learning rates: states with equal keys are updated alike.
  std::string key() const;
  /// Gives the optimizer the state of a parameter: tensors that take the place of what it has, or null to keep them.
  void store(size_t index, int64_t steps, const std::vector<at::Tensor>* tensors) const;

 private:
  void add_parameter(const at::Tensor& parameter, ParameterState state, size_t group);
  void check_parameter(const at::Tensor& parameter) const;
  void check_hooks(const at::Tensor& parameter) const;
  void take_state(Entry& entry, ParameterState state) const;
  std::string newest_path() const { return path_of(entries_.size() - 1); }

  std::shared_ptr<const OptimizerView> optimizer_;
  std::string rule_;
  std::vector<std::vector<double>> group_options_;
  std::vector<double> learning_rates_;
  std::vector<bool> maximizes_;
  std::vector<Entry> entries_;
};

}  // namespace diptych::detail
