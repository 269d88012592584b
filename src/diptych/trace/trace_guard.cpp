#include "diptych/trace/trace_guard.h"

#include <ATen/FunctionalTensorWrapper.h>
#include <ATen/autocast_mode.h>

#include <algorithm>
#include <vector>

#include "diptych/ops/dispatch_keys.h"
#include "diptych/trace/dispatch.h"
#include "diptych/trace/fake_tensor.h"
#include "diptych/trace/memory_overlap.h"
#include "diptych/trace/recorder.h"

namespace diptych::detail {
namespace {

// The traces that this thread is inside of, innermost last.
thread_local std::vector<Recorder*> active_recorders;

// A placeholder of a body has no memory, and the storage of all of its kind.
bool has_memory(const at::Tensor& real) {
  return !is_stand_in(real) || at::functionalization::impl::isFunctionalTensor(real);
}

// `tensor` and all real tensors that it stands for, in one trace or another.
std::vector<at::Tensor> stood_for(const at::Tensor& tensor) {
  std::vector<at::Tensor> found{tensor};
  for (auto recorder = active_recorders.rbegin(); recorder != active_recorders.rend(); ++recorder) {
    const size_t num_inner = found.size();
    for (const Primal& primal : (*recorder)->primals()) {
      const auto shares = [&](const at::Tensor& one) { return may_share_memory(one, primal.stand_in); };
      const bool stands_for =
          std::any_of(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(num_inner), shares);
      if (stands_for && has_memory(primal.real)) {
        found.push_back(primal.real);
      }
    }
  }
  return found;
}

}  // namespace

Recorder* innermost_recorder() { return active_recorders.empty() ? nullptr : active_recorders.back(); }

Recorder* recorder_of(uint64_t trace_id) {
  const auto found = std::find_if(active_recorders.begin(), active_recorders.end(),
                                  [&](const Recorder* recorder) { return recorder->id() == trace_id; });
  return found == active_recorders.end() ? nullptr : *found;
}

bool is_tracing() {
  return innermost_recorder() != nullptr && c10::impl::tls_local_dispatch_key_set().included_.has(kFakeKey);
}

// A part that a trace has taken is a copy that behaves as a view: see Note [Parts].
bool share_memory_in_traces(const at::Tensor& a, const at::Tensor& b) {
  const auto are_related = [](const at::Tensor& one, const at::Tensor& other) {
    return may_share_memory(one, other) ||
           std::any_of(active_recorders.begin(), active_recorders.end(),
                       [&](Recorder* recorder) { return recorder->parts().relates(one, other); });
  };
  const auto left = stood_for(a), right = stood_for(b);
  return std::any_of(left.begin(), left.end(), [&](const at::Tensor& one) {
    return std::any_of(right.begin(), right.end(), [&](const at::Tensor& other) { return are_related(one, other); });
  });
}

// Modes and hooks that are active around the outermost trace belong to the caller and not to the traced function: a
// backward may be traced in the middle of them. Those that the traced function enters are its own.
TraceGuard::TraceGuard(Recorder& recorder)
    : saved_keys_(c10::impl::tls_local_dispatch_key_set()),
      saved_hooks_(at::SavedTensorDefaultHooks::get_tls_state()),
      saved_reapply_views_(at::functionalization::impl::getFunctionalizationReapplyViewsTLS()) {
  auto keys = saved_keys_;
  if (active_recorders.empty()) {
    keys.included_ = keys.included_ & c10::default_included_set;
    at::SavedTensorDefaultHooks::set_tls_state({});
  }
  keys.included_ = keys.included_ | kTraceKeys;
  keys.excluded_ = (keys.excluded_ - kTraceKeys - c10::DispatchKeySet(kMetaMark)) | c10::DispatchKeySet(kSelectKey);
  c10::impl::_force_tls_local_dispatch_key_set(keys);
  at::functionalization::impl::setFunctionalizationReapplyViewsTLS(true);
  active_recorders.push_back(&recorder);
  link_dispatch_kernels();
}

TraceGuard::~TraceGuard() {
  active_recorders.pop_back();
  at::SavedTensorDefaultHooks::set_tls_state(saved_hooks_);
  at::functionalization::impl::setFunctionalizationReapplyViewsTLS(saved_reapply_views_);
  c10::impl::_force_tls_local_dispatch_key_set(saved_keys_);
  if (!active_recorders.empty()) return;
  // Autocast caches casts of leaves by tensor; casts of stand-ins must not outlive the trace.
  at::autocast::clear_cache();
  release_fakes();
}

PauseTraceGuard::PauseTraceGuard() : saved_keys_(c10::impl::tls_local_dispatch_key_set()) {
  auto keys = saved_keys_;
  keys.included_ = keys.included_ - kTraceKeys;
  keys.excluded_ = keys.excluded_ - c10::DispatchKeySet(kSelectKey);
  c10::impl::_force_tls_local_dispatch_key_set(keys);
}

PauseTraceGuard::~PauseTraceGuard() { c10::impl::_force_tls_local_dispatch_key_set(saved_keys_); }

}  // namespace diptych::detail
