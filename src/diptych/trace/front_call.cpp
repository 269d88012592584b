// What the recorder learns from the operators that the user calls, before functionalization takes them apart.
#include <ATen/FunctionalTensorWrapper.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/variable.h>

#include "diptych/base/error.h"
#include "diptych/trace/memory_overlap.h"
#include "diptych/trace/recorder.h"
#include "diptych/trace/stack_tensors.h"
#include "diptych/trace/strided_view.h"

namespace diptych::detail {

namespace ag = torch::autograd;

Recorder::FrontCall::FrontCall(Recorder& recorder, const c10::OperatorHandle& op, const OperatorPlan& plan,
                               const torch::jit::Stack& stack)
    : recorder_(recorder), plan_(plan), outer_(recorder.front_) {
  recorder.front_ = &op.schema();
  if (recorder.create_graph_) {
    any_tensor(stack, plan, [&](const at::Tensor& operand) { return recorder.note_lost_history(operand), false; });
  }
  if (recorder.phase_ != Phase::kForward || plan.takes_tensor.empty()) return;
  if (!plan.mutates && !plan.is_view) return;
  const auto& first = stack[stack.size() - plan.takes_tensor.size()];
  if (!first.isTensor() || !first.toTensor().defined()) return;
  const at::Tensor& self = first.toTensor();
  recorder.note_history(plan, self);
  if (plan.is_as_strided) recorder.note_strided(stack);
  if (!plan.mutates || !at::functionalization::impl::isFunctionalTensor(self)) return;
  self_ = self;
  strides_.assign(self.strides().begin(), self.strides().end());
  const auto& views = at::functionalization::impl::unsafeGetFunctionalWrapper(self)->view_metas();
  num_views_ = views.size();
}

void Recorder::FrontCall::finish(const torch::jit::Stack& stack) {
  if (self_.defined()) {
    if (self_.requires_grad()) {
      recorder_.rewrites_ = true;
      recorder_.with_history_.insert(self_.storage().unsafeGetStorageImpl());
    }
    const auto* wrapper = at::functionalization::impl::unsafeGetFunctionalWrapper(self_);
    if (wrapper->view_metas().size() != num_views_) {
      recorder_.check_not_captured(self_);
      recorder_.recover_views_by_strides(autograd_base(self_));
    } else {
      recorder_.restore_layout(self_, strides_);
      recorder_.resolve_base(self_);
    }
  } else if (plan_.is_view && recorder_.phase_ == Phase::kForward) {
    const auto& result = stack.back();
    if (result.isTensor()) {
      recorder_.note_view(plan_, result.toTensor());
    } else {
      for (const at::Tensor& view : result.toTensorVector()) recorder_.note_view(plan_, view);
    }
  }
}

// Autograd lets a tensor go on the history of another one where a Function or a hook on saved tensors has made it.
void Recorder::note_lost_history(const at::Tensor& operand) {
  const FakeTensorImpl* fake = operand.defined() ? as_fake(operand) : nullptr;
  if (fake == nullptr || fake->trace_id != id_ || !operand.requires_grad()) return;
  const Node* producer = graph_.producer(fake->value);
  const bool is_forwards = producer != nullptr && producer->provenance.phase == Phase::kForward;
  if (!is_forwards || graph_.meta(fake->value).requires_grad) return;
  // What only leaves lead to that the function made has nothing outside.
  if (reaches_primal(ag::impl::gradient_edge(operand))) lost_history_ = fake->value;
}

bool Recorder::reaches_primal(const ag::Edge& from) const {
  std::unordered_set<const ag::Node*> ends, seen;
  for (const Primal& primal : primals_) {
    if (primal.edge.is_valid()) ends.insert(primal.edge.function.get());
  }
  std::vector<const ag::Node*> open{from.function.get()};
  while (!open.empty()) {
    const ag::Node* node = open.back();
    open.pop_back();
    if (ends.contains(node)) return true;
    for (const ag::Edge& edge : node->next_edges()) {
      if (edge.is_valid() && seen.insert(edge.function.get()).second) open.push_back(edge.function.get());
    }
  }
  return false;
}

// The function's own C++ code reads sizes off the real tensor, which keeps its shape until the call.
void Recorder::check_not_captured(const at::Tensor& reshaped) const {
  for (const Primal& primal : primals_) {
    DIPTYCH_CHECK(primal.slot.kind != SlotKind::kFreeVariable || !primal.stand_in.is_same(reshaped),
                  "[capture] the function changes the shape of a captured tensor ({}) in place; pass it as an argument",
                  primal.slot.path);
  }
}

void Recorder::note_history(const OperatorPlan& plan, const at::Tensor& self) {
  const auto* storage = self.storage().unsafeGetStorageImpl();
  const bool records = c10::GradMode::is_enabled();
  if (plan.mutates) {
    const bool is_seen = records && self.requires_grad();
    const bool has_history = may_have_history(self);
    any_mutation_ = true;
    blind_mutation_ |= !records || (has_history && !is_seen);
    rewrites_ |= has_history;
    rewrites_unseen_ |= has_history && !is_seen;
  } else if (self.requires_grad()) {
    no_grad_view_ |= !records;
    if (plan.stops_gradient) with_history_.insert(storage);
  }
}

// Whether it, or what it shares memory with, requires grad. The metadata of a value says too much: of empty_like(),
// too.
bool Recorder::may_have_history(const at::Tensor& self) const {
  return self.requires_grad() || with_history_.contains(self.storage().unsafeGetStorageImpl());
}

void Recorder::note_view(const OperatorPlan& plan, const at::Tensor& view) {
  // Functionalization, too, takes views: of the values that it keeps.
  if (!at::functionalization::impl::isFunctionalTensor(view)) return;
  if (view.is_view()) views_.emplace_back(view.getIntrusivePtr());
  const auto& views = at::functionalization::impl::unsafeGetFunctionalWrapper(view)->view_metas();
  if (views.empty()) return;
  // What functionalization can't write back: elements that stand for several, or windows, which it would add up;
  // strides that count in the storage under several views; through expand it subtracts, which bools can't be.
  const bool is_strided = plan.is_as_strided || plan.is_expand;
  const bool is_unwritable = plan.is_unfold || (plan.is_as_strided && views.size() > 1 && !writes_by_strides_) ||
                             (plan.is_expand && view.scalar_type() == at::kBool) ||
                             (is_strided && has_overlap(view.sizes(), view.strides()));
  if (is_unwritable) unwritable_views_.insert(views.back());
  if (plan.reads_otherwise) rereading_views_.insert(views.back());
  if (!c10::GradMode::is_enabled()) no_grad_views_.insert(views.back());
}

// Once a base has been written to, autograd takes its views' places in it anew. In eager it does so by the strides that
// they have; for stand-ins it repeats the calls that made them, which mean something else on a base of another shape
// and do not make a view that has changed its own.
void Recorder::recover_views_by_strides(at::Tensor base) {
  for (const auto& weak : views_) {
    const auto locked = weak.lock();
    if (!locked) continue;
    const at::Tensor view(locked);
    auto* old = ag::impl::get_view_autograd_meta(view);
    if (old == nullptr || !old->has_bw_view() || !old->get_backward_view().base_.is_same(base)) continue;
    auto meta = strided_view_meta(view, base, as_fake(view)->meta(), old->get_creation_meta());
    meta->grad_fn_ = old->grad_fn_;
    meta->output_nr_ = old->output_nr_;
    meta->requires_grad_ = old->requires_grad_;
    meta->retains_grad_ = old->retains_grad_;
    meta->hooks_ = std::move(old->hooks_);
    meta->cpp_hooks_list_ = old->cpp_hooks_list_;
    meta->set_attr_version(old->get_attr_version());
    view.unsafeGetTensorImpl()->set_autograd_meta(std::move(meta));
  }
}

}  // namespace diptych::detail
