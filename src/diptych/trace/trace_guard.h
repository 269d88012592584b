// The traces that a thread is inside of, and the thread-local dispatch state that makes it record.
#pragma once
#include <ATen/SavedTensorHooks.h>
#include <ATen/core/Tensor.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include "diptych/trace/levels.h"

namespace diptych::detail {

class Recorder;

/// Returns the recorder of the innermost trace that this thread is inside of; null if it is inside of none.
Recorder* innermost_recorder();

/// Returns the recorder of the trace with this id; null if this thread is not inside of it.
Recorder* recorder_of(uint64_t trace_id);

/// Returns whether this thread is inside of the trace with this id.
inline bool is_inside_trace(uint64_t trace_id) { return recorder_of(trace_id) != nullptr; }

/// Returns whether operators that are called on this thread are recorded.
bool is_tracing();

/// Returns whether two tensors share memory as far as the traces of this thread know: a stand-in shares the memory of
/// the tensor that it stands for.
bool share_memory_in_traces(const at::Tensor& a, const at::Tensor& b);

/// Makes `recorder` current and switches tracing on for this thread; its end restores everything, also when an
/// exception is thrown. Hooks on saved tensors that are active outside see nothing of a trace, whose tensors have no
/// elements.
class TraceGuard {
 public:
  explicit TraceGuard(Recorder& recorder);
  ~TraceGuard();
  TraceGuard(const TraceGuard&) = delete;
  TraceGuard& operator=(const TraceGuard&) = delete;

 private:
  NoLevels no_levels_;  ///< first: the keys are saved without those of levels
  c10::impl::LocalDispatchKeySet saved_keys_;
  at::impl::SavedTensorDefaultHooksTLS saved_hooks_;
  bool saved_reapply_views_;
};

/// Switches tracing off for this thread, for code that runs on real tensors inside a trace.
class PauseTraceGuard {
 public:
  PauseTraceGuard();
  ~PauseTraceGuard();
  PauseTraceGuard(const PauseTraceGuard&) = delete;
  PauseTraceGuard& operator=(const PauseTraceGuard&) = delete;

 private:
  c10::impl::LocalDispatchKeySet saved_keys_;
};

}  // namespace diptych::detail
