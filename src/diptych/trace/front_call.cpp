#include "diptych/trace/front_call.h"

#include "diptych/trace/autograd_facts.h"
#include "diptych/trace/eager_layout.h"
#include "diptych/trace/stack_tensors.h"

namespace diptych::detail {

FrontCall::FrontCall(Recorder& recorder, const c10::OperatorHandle& op, const OperatorPlan& plan,
                     const torch::jit::Stack& stack)
    : recorder_(recorder), plan_(plan), outer_(recorder.front()) {
  recorder.set_front({&op.schema(), &plan});
  auto& provenance = recorder.provenance();
  if (provenance.creates_graph()) {
    any_tensor(stack, plan, [&](const at::Tensor& operand) {
      if (recorder.owns(operand)) provenance.note_operand(operand, recorder.primal_table());
      return false;
    });
  }
  if (provenance.phase() != Phase::kForward || plan.takes_tensor.empty()) return;
  if (!plan.mutates && !plan.is_view) return;
  each_written(stack, plan, [this](const at::Tensor& tensor) { note_write(tensor); });
  const bool is_composite = plan.mutates && !plan.is_native;
  const auto& first = stack[stack.size() - plan.takes_tensor.size()];
  if (is_composite || !first.isTensor() || !first.toTensor().defined()) return;
  if (!plan.mutates) recorder.views().note_view_of(plan, first.toTensor());
  if (plan.write_back == WriteBack::kInStorage) recorder.views().note_strided(recorder.primal_table(), stack);
}

void FrontCall::note_write(const at::Tensor& tensor) {
  if (!tensor.defined()) return;
  recorder_.views().note_write(tensor);
  if (!at::functionalization::impl::isFunctionalTensor(tensor)) return;
  written_.push_back(
      {tensor, c10::DimVector(tensor.strides().begin(), tensor.strides().end()), steps_of(tensor).size()});
}

void FrontCall::finish(const torch::jit::Stack& stack) {
  for (const Written& written : written_) finish_write(written);
  if (plan_.mutates || !plan_.is_view || recorder_.phase() != Phase::kForward) return;
  const auto& result = stack.back();
  if (result.isTensor()) return recorder_.views().note_view(plan_, result.toTensor());
  for (const at::Tensor& view : result.toTensorVector()) recorder_.views().note_view(plan_, view);
}

void FrontCall::finish_write(const Written& written) {
  const auto& [tensor, strides, num_views] = written;
  recorder_.views().note_written(tensor);
  if (steps_of(tensor).size() != num_views) {  // its shape was changed in place
    recorder_.primal_table().check_not_captured(tensor);
    recorder_.views().recover_views_by_strides(autograd_base(tensor));
  } else {
    restore_layout(tensor, strides);
    resolve_base(recorder_, tensor);
  }
}

}  // namespace diptych::detail
