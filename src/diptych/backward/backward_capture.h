// Whole-backward capture: backward() and torch::autograd::grad() as one graph each.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "diptych/graph/graph.h"

namespace diptych {

namespace detail {
struct GuardsOfThread;
}

namespace backward_capture {

/// What happened to backward runs.
struct Statistics {
  size_t captures = 0;              ///< graphs that were traced
  size_t hits = 0;                  ///< runs that ran a graph that was there
  size_t size_checks = 0;           ///< hits that were traced, as a graph for many sizes met these for the first time
  size_t eager = 0;                 ///< runs that autograd's engine ran, as they could not be captured
  std::vector<std::string> misses;  ///< why each capture had to be made, in a line
  /// How many of them there were of each kind: "first backward", "new autograd node", "fewer autograd nodes", "size
  /// changed", "other results", "other ending", "other state".
  std::map<std::string, size_t> misses_by_reason;
  std::map<std::string, size_t> eager_by_reason;  ///< why the engine ran them, such as "batched gradients"
};

}  // namespace backward_capture

/// While one lives, backward runs that this thread starts run through a captured graph of the whole run: of every
/// autograd node, whoever made it, hooks and the accumulation of gradients among them. The first run of a kind is
/// captured, later ones with nodes, constants, sizes and strides as the first run its graph. What a graph can't hold
/// (hooks, accumulation, nodes that can't be replayed on stand-ins) stands in it as hop.autograd_node and runs as in
/// eager, in eager's order. A run that can't be captured at all runs in eager, which the statistics count by reason:
/// batched gradients, transforms of functions, dispatch modes, forward-mode differentiation, tensor subclasses, nested,
/// sparse, quantized and lazily conjugated tensors, anomaly mode, and runs that are nested more than eight deep.
/// Results, errors, warnings and what is accumulated are eager's. Threads: each has its own; others run in eager.
/// Source: PyTorch's compiled autograd (torch/csrc/dynamo/compiled_autograd.h), whose interface to nodes it uses.
/// Errors: c10::Error if another thread is in a backward run while the process's first guard is made.
class BackwardCapture {
 public:
  BackwardCapture();
  ~BackwardCapture();
  BackwardCapture(const BackwardCapture&) = delete;
  BackwardCapture& operator=(const BackwardCapture&) = delete;

  /// What happened to the runs that this thread started since the guard was made, those of guards inside it included.
  const backward_capture::Statistics& stats() const { return stats_; }

 private:
  friend struct detail::GuardsOfThread;
  backward_capture::Statistics stats_;
  BackwardCapture* outer_;
};

namespace backward_capture {

/// Does what a BackwardCapture does, for all threads and until disable(). Errors: as the guard.
void enable();
void disable();

/// What happened in this process since the last reset(), on all threads.
Statistics statistics();

/// Forgets all graphs, and the statistics.
void reset();

/// The graph of the run that ran last on this thread: from what its nodes have saved to the gradients asked for.
/// Errors: UserError if none has run, or if it ran in eager.
Graph last_graph();

}  // namespace backward_capture
}  // namespace diptych
