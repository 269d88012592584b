// How a run gets an ending: the next run that the thread starts takes it.
#pragma once
#include "diptych/backward/run_backend.h"
#include "diptych/backward/run_ending.h"
#include "diptych/backward/run_graphs.h"

namespace diptych::detail {

/// While one lives, the engine passes each run to us; a run that nobody captures runs in eager. Threads: any.
/// Errors: c10::Error if another thread is in a backward run while the process's first is made.
class EngineCapture {
 public:
  EngineCapture();
  ~EngineCapture();
  EngineCapture(const EngineCapture&) = delete;
  EngineCapture& operator=(const EngineCapture&) = delete;
};

/// What a step plans for the run that it starts.
struct PlannedEnding {
  RunEnding* ending = nullptr;
  const RunBackend* backend = nullptr;
  RunGraphs* graphs = nullptr;  ///< gets the run's graph
};

/// While one lives, the next backward run that this thread starts is captured, ends with `ending`, and is run by
/// `backend`; its graph is added to `graphs`. A run that can't be captured runs in eager, and the ending gets no
/// results. Requires: an EngineCapture; the run accumulates gradients (backward() without inputs), and not with
/// create_graph.
class EndingScope {
 public:
  EndingScope(RunEnding& ending, const RunBackend& backend, RunGraphs& graphs);
  ~EndingScope();
  EndingScope(const EndingScope&) = delete;
  EndingScope& operator=(const EndingScope&) = delete;

 private:
  PlannedEnding outer_;
};

}  // namespace diptych::detail
