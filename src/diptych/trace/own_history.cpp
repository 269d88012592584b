#include "diptych/trace/own_history.h"

#include <ATen/FunctionalTensorWrapper.h>
#include <ATen/ops/detach.h>
#include <c10/core/GradMode.h>

#include <algorithm>

#include "diptych/trace/exchange_tensors.h"

namespace diptych::detail {
namespace {

thread_local uint64_t num_data_reads = 0;

// What functionalization wraps has no history, and is no operand of the user's.
bool is_of_user(const Recorder& recorder, const at::Tensor& tensor) {
  if (!tensor.defined() || !recorder.owns(tensor)) return false;
  return at::functionalization::impl::isFunctionalTensor(tensor) && (tensor.is_floating_point() || tensor.is_complex());
}

// Whether the graph says that a tensor has a history, and autograd that it has none.
bool has_lost_history(Recorder& recorder, const at::Tensor& tensor) {
  return is_of_user(recorder, tensor) && !tensor.requires_grad() &&
         recorder.graph().meta(recorder.value_of(tensor)).requires_grad;
}

// Whether autograd ends at a tensor, a leaf that the function made of another's data, and the graph does not.
bool is_leaf_with_history(Recorder& recorder, const at::Tensor& tensor) {
  if (!is_of_user(recorder, tensor) || !tensor.requires_grad() || !tensor.is_leaf()) return false;
  const Value value = recorder.value_of(tensor);
  if (!recorder.graph().meta(value).requires_grad) return false;
  const auto& primals = recorder.primals();  // an input's own stand-in is a leaf in both
  return std::none_of(primals.begin(), primals.end(), [&](const auto& one) { return one.stand_in.is_same(tensor); });
}

void note_data(Recorder& recorder, const at::Tensor& tensor) {
  ++num_data_reads;
  recorder.views().note_data(tensor);
}

// As if the values of such a leaf had been written to it: what is differentiated is the trace, not the graph.
void note_leaf(Recorder& recorder, const at::Tensor& tensor) {
  const c10::AutoGradMode unseen(false);
  note_data(recorder, tensor);
  recorder.views().note_write(tensor);
}

}  // namespace

uint64_t data_reads() { return num_data_reads; }

at::Tensor with_own_history(Recorder& recorder, const at::Tensor& operand) {
  if (recorder.phase() != Phase::kForward || !has_lost_history(recorder, operand)) return operand;
  note_data(recorder, operand);
  return c10::GradMode::is_enabled() ? operand.detach() : operand;
}

// Under no_grad nothing is read with a history. A backward is given tensors without one, of which its graph knows more.
void read_own_histories(Recorder& recorder, const OperatorPlan& plan, torch::jit::Stack& stack) {
  if (plan.stops_gradient || recorder.phase() != Phase::kForward) return;
  const bool records = c10::GradMode::is_enabled();
  bool is_found = false;
  any_tensor(stack, plan, [&](const at::Tensor& tensor) {
    const bool is_data = has_lost_history(recorder, tensor);
    if (is_data) note_data(recorder, tensor);
    if (records && !is_data && is_leaf_with_history(recorder, tensor)) note_leaf(recorder, tensor);
    is_found = is_found || is_data;
    return false;
  });
  if (!is_found || !records || plan.is_view) return;  // a view of such a tensor is such a one
  const auto is_read = [&](const at::Tensor& tensor) {
    bool is_written = false;
    each_written(stack, plan, [&](const at::Tensor& one) { is_written = is_written || one.is_same(tensor); });
    return !is_written && has_lost_history(recorder, tensor);
  };
  exchange_tensors(plan, stack, is_read, [&](const at::Tensor& tensor) { return tensor.detach(); });
}

void settle_histories(Recorder& recorder, const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  if (recorder.phase() != Phase::kForward || !c10::GradMode::is_enabled()) return;
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
