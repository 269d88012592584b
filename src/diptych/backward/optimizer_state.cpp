#include "diptych/backward/optimizer_state.h"

#include <fmt/ranges.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <array>
#include <unordered_set>

#include "diptych/backward/update_parameters.h"
#include "diptych/backward/update_rules.h"
#include "diptych/base/check.h"

namespace diptych::detail {
namespace {

namespace ag = torch::autograd;

constexpr std::array kDtypes{at::kFloat, at::kDouble, at::kBFloat16, at::kHalf};

}  // namespace

OptimizerState::OptimizerState(std::shared_ptr<const OptimizerView> optimizer) : optimizer_(std::move(optimizer)) {
  OptimizerContents contents = optimizer_->read();
  rule_ = std::move(contents.rule);
  for (size_t number = 0; number < contents.groups.size(); ++number) {
    OptimizerGroup& group = contents.groups[number];
    group_options_.push_back(std::move(group.options));
    learning_rates_.push_back(group.learning_rate);
    maximizes_.push_back(group.maximizes);
    for (size_t i = 0; i < group.parameters.size(); ++i)
      add_parameter(group.parameters[i], std::move(group.states[i]), number);
  }
  std::unordered_set<const c10::TensorImpl*> seen;
  for (size_t i = 0; i < entries_.size(); ++i) {
    DIPTYCH_CHECK(seen.insert(entries_[i].parameter.unsafeGetTensorImpl()).second,
                  "[step] {} of the optimizer is listed twice, so a step would update it twice; list each tensor once",
                  path_of(i));
  }
}

void OptimizerState::add_parameter(const at::Tensor& parameter, ParameterState state, size_t group) {
  entries_.push_back({parameter, group, {}, kNoState});
  check_parameter(parameter);
  check_hooks(parameter);
  take_state(entries_.back(), std::move(state));
}

const std::vector<std::string_view>& OptimizerState::state_names() const { return find_update_rule(rule_).state_names; }

size_t OptimizerState::num_tensors(size_t index) const {
  return num_states(rule_, group_options_[entries_[index].group]);
}

void OptimizerState::check_parameter(const at::Tensor& parameter) const {
  DIPTYCH_CHECK(parameter.defined(), "[step] {} of the optimizer is an undefined tensor", newest_path());
  const bool is_plain = parameter.layout() == at::kStrided && parameter.device().is_cpu() &&
                        !parameter.is_inference() &&
                        std::find(kDtypes.begin(), kDtypes.end(), parameter.scalar_type()) != kDtypes.end();
  DIPTYCH_CHECK(is_plain,
                "[step] {} of the optimizer is {} of layout {} on {}, expected a strided floating-point CPU tensor "
                "that is not an inference tensor; call backward() and the optimizer's own step()",
                newest_path(), c10::toString(parameter.scalar_type()), c10::str(parameter.layout()),
                parameter.device().str());
}

// Refuses hooks on accumulation, which would never be called: a captured step does not accumulate.
void OptimizerState::check_hooks(const at::Tensor& parameter) const {
  if (!parameter.requires_grad()) return;
  const auto accumulation = ag::impl::try_get_grad_accumulator(parameter);
  const bool is_hooked = ag::impl::post_acc_grad_hooks(parameter) != nullptr ||
                         (accumulation && (!accumulation->pre_hooks().empty() || !accumulation->post_hooks().empty()));
  DIPTYCH_CHECK(!is_hooked,
                "[step] {} of the optimizer has hooks on the accumulation of its gradient, but a captured step does "
                "not accumulate; hook the tensor (register_hook), or pass a GradientTransform",
                newest_path());
}

void OptimizerState::take_state(Entry& entry, ParameterState state) const {
  entry.steps = state.steps;
  if (entry.steps == kNoState) return;
  const at::Tensor& parameter = entry.parameter;
  entry.tensors = std::move(state.tensors);
  entry.tensors.resize(num_states(rule_, group_options_[entry.group]));
  for (size_t k = 0; k < entry.tensors.size(); ++k) {
    const at::Tensor& tensor = entry.tensors[k];
    DIPTYCH_CHECK(tensor.defined() && tensor.sizes() == parameter.sizes() && tensor.dtype() == parameter.dtype(),
                  "[step] the optimizer's {} of {} is {}, expected {} of sizes {}; load the state of this model, or "
                  "start with empty state if changed options keep other state",
                  state_names()[k], newest_path(),
                  tensor.defined() ? fmt::format("{} of sizes {}", c10::toString(tensor.scalar_type()), tensor.sizes())
                                   : "undefined",
                  c10::toString(parameter.scalar_type()), parameter.sizes());
  }
}

std::string OptimizerState::path_of(size_t index) const {
  const size_t group = entries_[index].group;
  size_t first = index;
  while (first > 0 && entries_[first - 1].group == group) --first;
  return fmt::format("parameter {} of group {}", index - first, group);
}

std::string OptimizerState::key() const {
  std::vector<size_t> counts(group_options_.size());
  for (const Entry& entry : entries_) ++counts[entry.group];
  const auto& names = option_names(rule_);
  std::string key = rule_;
  for (size_t group = 0; group < group_options_.size(); ++group) {
    key += fmt::format(" [{} parameters", counts[group]);
    for (size_t i = 0; i < names.size(); ++i) key += fmt::format(", {}={}", names[i], group_options_[group][i]);
    key += maximizes_[group] ? ", maximized]" : "]";
  }
  return key;
}

void OptimizerState::store(size_t index, int64_t steps, const std::vector<at::Tensor>* tensors) const {
  optimizer_->store(entries_[index].parameter, steps, tensors);
}

}  // namespace diptych::detail
