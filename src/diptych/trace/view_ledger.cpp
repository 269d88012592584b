#include "diptych/trace/view_ledger.h"

#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>

#include "diptych/trace/memory_overlap.h"
#include "diptych/trace/place_in_storage.h"
#include "diptych/trace/strided_view.h"
#include "diptych/trace/unexpand.h"

namespace diptych::detail {

namespace ag = torch::autograd;
namespace fn = at::functionalization;

// A tensor has a history if it requires grad or shares its memory with one that does. The metadata of its value would
// say so too often: it does for empty_like(), too. A view that is taken under no_grad requires grad as its base does.
void ViewLedger::note_write(const at::Tensor& self) {
  const bool is_seen = c10::GradMode::is_enabled() && self.requires_grad();
  const bool has_history = self.requires_grad() || with_history_.has_memory_of(self);
  if (!c10::GradMode::is_enabled() || passes_no_gradient(self)) {
    written_unseen_.add_memory_of(self);
  }
  any_write_ = true;
  rewrites_history_ |= has_history && !is_seen;
}

bool ViewLedger::passes_no_gradient(const at::Tensor& view) const {
  if (!fn::impl::isFunctionalTensor(view)) return false;
  const auto& steps = steps_of(view);
  return std::any_of(steps.begin(), steps.end(), [&](const ViewStep& step) { return stopping_steps_.contains(step); });
}

void ViewLedger::note_view_of(const OperatorPlan& plan, const at::Tensor& self) {
  if (plan.stops_gradient && self.requires_grad()) with_history_.add_memory_of(self);
}

void ViewLedger::note_written(const at::Tensor& self) {
  if (self.requires_grad()) with_history_.add_memory_of(self);
}

void ViewLedger::note_view(const OperatorPlan& plan, const at::Tensor& view) {
  // Functionalization takes views of the values that it keeps; those are not wrapped.
  if (!fn::impl::isFunctionalTensor(view)) return;
  if (view.is_view()) add(view);
  const auto& steps = steps_of(view);
  if (steps.empty()) return;
  const bool is_writable = !is_unwritable(plan, view);
  if (is_writable && plan.write_back == WriteBack::kByDifference) write_back_by_element(view);
  if (!is_writable) unwritable_steps_.insert(steps.back());
  if (plan.stops_gradient) stopping_steps_.insert(steps.back());
  if (plan.reinterprets) reinterpreting_steps_.insert(steps.back());
  if (!c10::GradMode::is_enabled()) no_grad_steps_.insert(steps.back());
}

bool ViewLedger::is_unwritable(const OperatorPlan& plan, const at::Tensor& view) const {
  if (plan.write_back == WriteBack::kByElement) return false;
  if (plan.write_back == WriteBack::kBySum) return true;
  const bool is_later_step = steps_of(view).size() > 1 && !writes_by_strides_;
  if (plan.write_back == WriteBack::kInStorage && is_later_step) return true;
  return has_overlap(view.sizes(), view.strides());
}

void ViewLedger::note_strided(const PrimalTable& primals, const torch::jit::Stack& stack) {
  constexpr size_t kNumArguments = 4;
  const c10::ArrayRef<c10::IValue> arguments(&stack[stack.size() - kNumArguments], kNumArguments);
  const Primal* primal = primals.behind(arguments[0].toTensor());
  if (primal == nullptr || !primal->real.defined()) return;
  check_strided(*primal, arguments);
  if (!arguments[3].isNone()) counted_offsets_.insert(primals.index_of(*primal));
}

void ViewLedger::note_merged(bool any_requires_grad) {
  merges_ = true;
  rewrites_history_ |= any_requires_grad;
}

void ViewLedger::add(const at::Tensor& view) { views_.emplace_back(view.getIntrusivePtr()); }

// A chain of views starts from a tensor without views, and functionalization can write back through some views only.
bool ViewLedger::can_write_back(const at::Tensor& view) const {
  if (unwritable_steps_.empty() || !fn::impl::isFunctionalTensor(view)) return true;
  const auto& steps = steps_of(view);
  return std::none_of(steps.begin(), steps.end(),
                      [&](const ViewStep& step) { return unwritable_steps_.contains(step); });
}

// Once a base has been written to, autograd takes the views of it again. In eager it takes them by their strides. For
// stand-ins it repeats the calls that made the views: on a base of another shape these calls mean something else, and
// they do not make a view that has changed its own shape.
void ViewLedger::recover_views_by_strides(at::Tensor base) {
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
