#include "diptych/backward/optimizer_ending.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <algorithm>

#include "diptych/backward/prepare_gradients.h"
#include "diptych/base/check.h"
#include "diptych/trace/scope.h"

namespace diptych::detail {

StepEnding::StepEnding(torch::optim::Optimizer& optimizer, const StepOptions& options)
    : optimizer_(view_of(optimizer)), options_(options) {
  const auto& rates = optimizer_.learning_rates();
  rates_ = at::empty({static_cast<int64_t>(rates.size())}, at::kDouble);
  std::copy(rates.begin(), rates.end(), rates_.mutable_data_ptr<double>());
  steps_ = at::empty({static_cast<int64_t>(optimizer_.entries().size())}, at::kLong);
  for (size_t i = 0; i < optimizer_.entries().size(); ++i) {
    const auto& entry = optimizer_.entries()[i];
    parameters_.push_back(entry.parameter);
    states_.push_back({entry.group, entry.tensors, entry.steps});
    if (entry.steps == kNoState) {
      for (size_t k = 0; k < optimizer_.num_tensors(i); ++k)
        states_[i].tensors.push_back(at::empty_like(entry.parameter.detach()));
    }
    steps_.mutable_data_ptr<int64_t>()[i] = entry.steps;
  }
}

std::string StepEnding::key() const {
  std::string key = optimizer_.key();
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
      inputs.push_back({fmt::format("{}.{}", optimizer_.state_names()[k], i), states_[i].tensors[k]});
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
  const auto changed = transform_gradients(*options_.transform, given, parameters_,
                                           [&](size_t index) { return optimizer_.path_of(index); });
  for (size_t i = 0; i < changed.size(); ++i) {
    if (!changed[i].is_same(given[i])) gradients[i] = {changed[i], {}};
  }
  return gradients;
}

at::Tensor StepEnding::clip(std::vector<FoundGradient>& found) const {
  const Scope scope("clip");
  std::vector<at::Tensor> gradients;
  for (const auto& gradient : found) gradients.push_back(gradient.tensor);
  const at::Tensor norm = clip_gradients(gradients, *options_.max_gradient_norm, options_.norm_type);
  for (size_t i = 0; i < found.size(); ++i) found[i].tensor = gradients[i];
  return norm;
}

void StepEnding::record_update(const std::vector<FoundGradient>& gradients,
                               const std::vector<at::Tensor>& inputs) const {
  const Scope scope("update");
  UpdatePlan plan{optimizer_.rule(), optimizer_.group_options(), {}};
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
                  optimizer_.path_of(i), c10::str(gradient.layout()));
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
    optimizer_.store(i, steps, states_[i].steps == kNoState ? &states_[i].tensors : nullptr);
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
