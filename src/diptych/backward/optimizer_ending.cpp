#include "diptych/backward/optimizer_ending.h"

#include <ATen/ops/add.h>
#include <ATen/ops/clamp_max.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/reciprocal.h>
#include <ATen/ops/stack.h>
#include <fmt/ranges.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <array>
#include <unordered_set>

#include "diptych/base/error.h"
#include "diptych/trace/scope.h"

namespace diptych::detail {
namespace {

namespace ag = torch::autograd;

constexpr std::array kDtypes{at::kFloat, at::kDouble, at::kBFloat16, at::kHalf};

}  // namespace

StepEnding::StepEnding(torch::optim::Optimizer& optimizer, const StepOptions& options)
    : optimizer_(optimizer), options_(options), class_(class_of(optimizer)) {
  const auto& groups = optimizer.param_groups();
  rates_ = at::empty({static_cast<int64_t>(groups.size())}, at::kDouble);
  for (size_t group = 0; group < groups.size(); ++group) {
    group_options_.push_back(class_.options(groups[group].options()));
    rates_.mutable_data_ptr<double>()[group] = groups[group].options().get_lr();
    for (const at::Tensor& parameter : groups[group].params()) add_parameter(parameter, group);
  }
  std::unordered_set<const c10::TensorImpl*> seen;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    DIPTYCH_CHECK(seen.insert(parameters_[i].unsafeGetTensorImpl()).second,
                  "[step] {} of the optimizer is listed twice, so a step would update it twice; list each tensor once",
                  path_of(i));
  }
  steps_ = at::empty({static_cast<int64_t>(states_.size())}, at::kLong);
  for (size_t i = 0; i < states_.size(); ++i) steps_.mutable_data_ptr<int64_t>()[i] = states_[i].steps;
}

void StepEnding::add_parameter(const at::Tensor& parameter, size_t group) {
  states_.push_back({group, {}, kNoState});
  check_parameter(parameter);
  check_hooks(parameter);
  parameters_.push_back(parameter);
  states_.back() = read_state(parameter, group);
}

void StepEnding::check_parameter(const at::Tensor& parameter) const {
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
void StepEnding::check_hooks(const at::Tensor& parameter) const {
  if (!parameter.requires_grad()) return;
  const auto accumulation = ag::impl::try_get_grad_accumulator(parameter);
  const bool is_hooked = ag::impl::post_acc_grad_hooks(parameter) != nullptr ||
                         (accumulation && (!accumulation->pre_hooks().empty() || !accumulation->post_hooks().empty()));
  DIPTYCH_CHECK(!is_hooked,
                "[step] {} of the optimizer has hooks on the accumulation of its gradient, but a captured step does "
                "not accumulate; hook the tensor (register_hook), or pass a GradientTransform",
                newest_path());
}

StepEnding::State StepEnding::read_state(const at::Tensor& parameter, size_t group) const {
  State state{group, {}, kNoState};
  const size_t count = num_states(class_.rule, group_options_[group]);
  const auto known = optimizer_.state().find(parameter.unsafeGetTensorImpl());
  if (known != optimizer_.state().end()) state.steps = class_.steps(*known->second);
  if (state.steps == kNoState) {
    for (size_t k = 0; k < count; ++k) state.tensors.push_back(at::empty_like(parameter.detach()));
    return state;
  }
  state.tensors = class_.tensors(*known->second);
  state.tensors.resize(count);
  for (size_t k = 0; k < count; ++k) {
    const at::Tensor& tensor = state.tensors[k];
    DIPTYCH_CHECK(tensor.defined() && tensor.sizes() == parameter.sizes() && tensor.dtype() == parameter.dtype(),
                  "[step] the optimizer's {} of {} is {}, expected {} of sizes {}; load the state of this model, or "
                  "start with empty state if changed options keep other state",
                  class_.state_names[k], newest_path(),
                  tensor.defined() ? fmt::format("{} of sizes {}", c10::toString(tensor.scalar_type()), tensor.sizes())
                                   : "undefined",
                  c10::toString(parameter.scalar_type()), parameter.sizes());
  }
  return state;
}

std::string StepEnding::path_of(size_t index) const {
  const size_t group = states_[index].group;
  size_t first = index;
  while (first > 0 && states_[first - 1].group == group) --first;
  return fmt::format("parameter {} of group {}", index - first, group);
}

std::string StepEnding::key() const {
  std::vector<size_t> counts(group_options_.size());
  for (const State& state : states_) ++counts[state.group];
  const auto& names = option_names(class_.rule);
  std::string key(class_.rule);
  for (size_t group = 0; group < group_options_.size(); ++group) {
    key += fmt::format(" [{} parameters", counts[group]);
    for (size_t i = 0; i < names.size(); ++i) key += fmt::format(", {}={}", names[i], group_options_[group][i]);
    key += "]";
  }
  if (options_.transform != nullptr) key += fmt::format(" behind {}", options_.transform->key());
  if (options_.max_gradient_norm) {
    key += fmt::format(", {}-norm at most {}", options_.norm_type, *options_.max_gradient_norm);
  }
  return options_.keep_gradients ? key + ", gradients kept" : key;
}

std::vector<EndingInput> StepEnding::inputs() const {
  std::vector<EndingInput> inputs{{"steps", steps_}, {"learning_rates", rates_}};
  inputs.reserve(2 + 4 * parameters_.size());
  for (size_t i = 0; i < parameters_.size(); ++i) inputs.push_back({fmt::format("parameters.{}", i), parameters_[i]});
  for (size_t i = 0; i < parameters_.size(); ++i) {
    for (size_t k = 0; k < states_[i].tensors.size(); ++k) {
      inputs.push_back({fmt::format("{}.{}", class_.state_names[k], i), states_[i].tensors[k]});
    }
  }
  return inputs;
}

void StepEnding::begin() {
  if (options_.transform != nullptr) options_.transform->begin();
}

void StepEnding::gradient_is_ready(size_t index, const at::Tensor& gradient) {
  const Scope scope("gradients");
  if (options_.transform != nullptr) options_.transform->is_ready(index, gradient);
}

std::vector<at::Tensor> StepEnding::finish(const std::vector<FoundGradient>& found,
                                           const std::vector<at::Tensor>& inputs) {
  auto gradients = transformed(found);
  std::vector<at::Tensor> results;
  if (options_.max_gradient_norm) results.push_back(clip(gradients));
  record_update(gradients, inputs);
  if (options_.keep_gradients) {
    for (const auto& gradient : gradients) results.push_back(gradient.tensor);
  }
  return results;
}

// A gradient that a transform has computed counts as defined, whatever went into it.
std::vector<FoundGradient> StepEnding::transformed(std::vector<FoundGradient> gradients) const {
  if (options_.transform == nullptr) return gradients;
  const Scope scope("gradients");
  std::vector<at::Tensor> given;
  for (const auto& gradient : gradients) given.push_back(gradient.tensor);
  const auto changed = options_.transform->finish(std::move(given));
  const std::string who = options_.transform->key();
  DIPTYCH_CHECK(changed.size() == gradients.size(),
                "[step] the gradient transform '{}' returned {} gradients, expected {}", who, changed.size(),
                gradients.size());
  for (size_t i = 0; i < changed.size(); ++i) {
    if (changed[i].is_same(gradients[i].tensor)) continue;
    const at::Tensor& parameter = parameters_[i];
    DIPTYCH_CHECK(
        !changed[i].defined() || (changed[i].sizes() == parameter.sizes() && changed[i].dtype() == parameter.dtype()),
        "[step] the gradient transform '{}' returned {} of sizes {} for {}, expected {} of sizes {}", who,
        c10::toString(changed[i].scalar_type()), changed[i].sizes(), path_of(i), c10::toString(parameter.scalar_type()),
        parameter.sizes());
    gradients[i] = {changed[i], {}};
  }
  return gradients;
}

// Clips as torch::nn::utils::clip_grad_norm_ does. Zeros in the place of an undefined gradient change no norm.
at::Tensor StepEnding::clip(std::vector<FoundGradient>& gradients) const {
  const Scope scope("clip");
  std::vector<at::Tensor> norms;
  for (const auto& gradient : gradients) {
    if (!gradient.tensor.defined() || gradient.tensor.numel() == 0) continue;
    norms.push_back(at::linalg_vector_norm(gradient.tensor, options_.norm_type));
  }
  if (norms.empty()) return {};
  const at::Tensor norm = norms.size() == 1 ? norms[0] : at::linalg_vector_norm(at::stack(norms), options_.norm_type);
  const at::Tensor factor =
      at::clamp_max(at::mul(at::reciprocal(at::add(norm, 1e-6)), *options_.max_gradient_norm), 1.0);
  for (auto& gradient : gradients) {
    if (gradient.tensor.defined()) gradient.tensor = at::mul(gradient.tensor, factor);
  }
  return norm;
}

void StepEnding::record_update(const std::vector<FoundGradient>& gradients,
                               const std::vector<at::Tensor>& inputs) const {
  const Scope scope("update");
  UpdatePlan plan{std::string(class_.rule), group_options_, {}};
  UpdateTensors tensors;
  tensors.steps = inputs[0];
  tensors.learning_rates = inputs[1];
  size_t next_state = 2 + parameters_.size();
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const auto first = inputs.begin() + static_cast<std::ptrdiff_t>(next_state);
    const auto end = first + static_cast<std::ptrdiff_t>(states_[i].tensors.size());
    next_state += states_[i].tensors.size();
    if (!gradients[i].tensor.defined()) continue;
    plan.parameters.push_back(
        {static_cast<int64_t>(states_[i].group), static_cast<int64_t>(i), gradients[i].maybe_undefined});
    tensors.parameters.push_back(inputs[2 + i]);
    tensors.gradients.push_back(gradients[i].tensor);
    tensors.states.insert(tensors.states.end(), first, end);
  }
  if (!plan.parameters.empty()) update_parameters(plan, std::move(tensors));
}

void StepEnding::run_in_eager() {
  const at::NoGradGuard no_grad;
  std::vector<FoundGradient> gradients;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    gradients.push_back({std::exchange(parameters_[i].mutable_grad(), at::Tensor()), {}});
    const at::Tensor& gradient = gradients.back().tensor;
    DIPTYCH_CHECK(!gradient.defined() || gradient.layout() == at::kStrided,
                  "[step] the gradient of {} has layout {}, expected a strided one; leave out sparse=true, or call "
                  "backward() and the optimizer's own step()",
                  path_of(i), c10::str(gradient.layout()));
  }
  begin();
  for (size_t i = 0; i < gradients.size(); ++i) {
    if (gradients[i].tensor.defined()) gradient_is_ready(i, gradients[i].tensor);
  }
  std::vector<at::Tensor> tensors;
  for (auto& input : inputs()) tensors.push_back(std::move(input.tensor));
  auto results = finish(gradients, tensors);
  gradients.clear();
  take_results(std::move(results));
}

void StepEnding::take_results(std::vector<at::Tensor> results) {
  is_done_ = true;
  if (options_.max_gradient_norm && results[0].defined()) norm_ = results[0].item<double>();
  for (size_t i = 0; i < states_.size(); ++i) {
    const int64_t steps = steps_.const_data_ptr<int64_t>()[i];
    if (steps == states_[i].steps || states_[i].tensors.empty()) continue;
    auto& state = optimizer_.state()[parameters_[i].unsafeGetTensorImpl()];
    if (states_[i].steps == kNoState) state = class_.make(states_[i].tensors);
    class_.set_steps(*state, steps);
  }
  if (options_.keep_gradients) keep_gradients(results, options_.max_gradient_norm ? 1 : 0);
}

// Keeps gradients as a first accumulation does: a gradient is taken over if nobody else has its memory.
void StepEnding::keep_gradients(const std::vector<at::Tensor>& results, size_t first) const {
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const at::Tensor& gradient = results[first + i];
    if (!gradient.defined() || steps_.const_data_ptr<int64_t>()[i] == states_[i].steps) continue;
    const at::Tensor& parameter = parameters_[i];
    const bool is_ours = gradient.storage().use_count() == 1 && gradient.strides() == parameter.strides();
    parameter.mutable_grad() =
        is_ours ? gradient.detach() : at::empty_like(parameter.detach()).copy_(gradient.detach());
  }
}

}  // namespace diptych::detail
