// Whole-backward capture: backward() and torch::autograd::grad() as one graph each.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "diptych/graph/graph.h"

namespace diptych {

/// While one lives, backward passes that this thread starts run through a captured graph of the whole pass: of every
/// autograd node, whoever made it, hooks and the accumulation of gradients among them. The first pass of a kind is
/// captured, later ones with nodes, constants, sizes and strides as the first run its graph. What a graph can't hold
/// (hooks, accumulation, nodes that can't be replayed on stand-ins) stands in it as hop.autograd_node and runs as in
/// eager, in eager's order; a pass that can't be captured at all runs in eager, which the log says once
/// (DIPTYCH_LOG=backward). Results, errors and what is accumulated are eager's.
/// In anomaly mode passes run in eager. Threads: each has its own; others run in eager.
/// Source: PyTorch's compiled autograd (torch/csrc/dynamo/compiled_autograd.h), whose interface to nodes it uses.
/// Errors: c10::Error if another thread is in a backward pass while the process's first guard is made.
class BackwardCapture {
 public:
  BackwardCapture();
  ~BackwardCapture();
  BackwardCapture(const BackwardCapture&) = delete;
  BackwardCapture& operator=(const BackwardCapture&) = delete;
};

namespace backward_capture {

/// Does what a BackwardCapture does, for all threads and until disable(). Errors: as the guard.
void enable();
void disable();

/// What happened in this process since the last reset().
struct Statistics {
  size_t captures = 0;              ///< graphs that were traced
  size_t hits = 0;                  ///< passes that ran a graph that was there
  size_t eager = 0;                 ///< passes that were run in eager, as they could not be captured
  std::vector<std::string> misses;  ///< why each capture had to be made, in a line
  /// How many of them there were of each kind: "first backward", "new autograd node", "fewer autograd nodes", "size
  /// changed", "other ending".
  std::map<std::string, size_t> misses_by_reason;
};
Statistics statistics();

/// Forgets all graphs, and the statistics.
void reset();

/// The graph of the pass that ran last on this thread: from what its nodes have saved to the gradients asked for.
/// Errors: UserError if none has run, or if it ran in eager.
Graph last_graph();

}  // namespace backward_capture
}  // namespace diptych
