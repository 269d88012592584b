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
  const auto& first = stack[stack.size() - plan.takes_tensor.size()];
  if (!first.isTensor() || !first.toTensor().defined()) return;
  const at::Tensor& self = first.toTensor();
  if (plan.mutates) {
    recorder.views().note_write(self);
  } else {
    recorder.views().note_view_of(plan, self);
  }
  if (plan.write_back == WriteBack::kInStorage) recorder.views().note_strided(recorder.primal_table(), stack);
  if (!plan.mutates || !at::functionalization::impl::isFunctionalTensor(self)) return;
  self_ = self;
  strides_.assign(self.strides().begin(), self.strides().end());
  num_views_ = steps_of(self).size();
}

void FrontCall::finish(const torch::jit::Stack& stack) {
  if (self_.defined()) return finish_write();
  if (!plan_.is_view || recorder_.phase() != Phase::kForward) return;
  const auto& result = stack.back();
  if (result.isTensor()) return recorder_.views().note_view(plan_, result.toTensor());
  for (const at::Tensor& view : result.toTensorVector()) recorder_.views().note_view(plan_, view);
}

void FrontCall::finish_write() {
  recorder_.views().note_written(self_);
  if (steps_of(self_).size() != num_views_) {  // its shape was changed in place
    recorder_.primal_table().check_not_captured(self_);
    recorder_.views().recover_views_by_strides(autograd_base(self_));
  } else {
    restore_layout(self_, strides_);
    resolve_base(recorder_, self_);
  }
}

}  // namespace diptych::detail
