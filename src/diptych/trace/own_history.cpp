#include "diptych/trace/own_history.h"

#include <ATen/FunctionalTensorWrapper.h>
#include <ATen/ops/detach.h>
#include <c10/core/GradMode.h>

#include "diptych/trace/exchange_tensors.h"

namespace diptych::detail {
namespace {

bool records(const Recorder& recorder) { return recorder.phase() == Phase::kForward && c10::GradMode::is_enabled(); }

// Whether the graph says that a tensor has a history, and autograd that it has none. What functionalization wraps has
// none, and is no operand of the user's.
bool has_lost_history(Recorder& recorder, const at::Tensor& tensor) {
  if (!tensor.defined() || tensor.requires_grad() || !recorder.owns(tensor)) return false;
  if (!at::functionalization::impl::isFunctionalTensor(tensor)) return false;
  if (!tensor.is_floating_point() && !tensor.is_complex()) return false;
  return recorder.graph().meta(recorder.value_of(tensor)).requires_grad;
}

}  // namespace

at::Tensor with_own_history(Recorder& recorder, const at::Tensor& operand) {
  if (!records(recorder) || !has_lost_history(recorder, operand)) return operand;
  return operand.detach();
}

OwnHistories::OwnHistories(Recorder& recorder, const OperatorPlan& plan, torch::jit::Stack& stack) {
  const bool matters = records(recorder) || (plan.mutates && recorder.phase() == Phase::kForward);
  if (plan.stops_gradient || !matters) return;
  const auto is_other = [&](const at::Tensor& tensor) { return has_lost_history(recorder, tensor); };
  exchange_tensors(plan, stack, is_other, [&](const at::Tensor& tensor) {
    recorder.views().note_data(tensor); 
    exchanged_.emplace_back(tensor.detach(), tensor);
    return exchanged_.back().first;
  });
}

void OwnHistories::restore(torch::jit::Stack& stack) const {
  if (exchanged_.empty() || stack.empty() || !stack.back().isTensor()) return;
  for (const auto& [used, given] : exchanged_) {
    if (stack.back().toTensor().is_same(used)) stack.back() = given;
  }
}

void settle_histories(Recorder& recorder, const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  if (!records(recorder)) return;
  const auto settle = [&](const at::Tensor& result) {
    if (has_lost_history(recorder, result)) recorder.forget_history(result);
  };
  for (size_t i = stack.size() - op.schema().returns().size(); i < stack.size(); ++i) {
    if (stack[i].isTensor()) settle(stack[i].toTensor());
    if (!stack[i].isTensorList()) continue;
    for (const at::Tensor& tensor : stack[i].toTensorVector()) settle(tensor);
  }
}

}  // namespace diptych::detail
