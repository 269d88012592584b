// Whole-backward capture: backward() and torch::autograd::grad() as one graph each.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "diptych/backends/builtin_backends.h"
#include "diptych/backward/run_graphs.h"
#include "diptych/graph/graph.h"

namespace diptych {

namespace detail {
struct GuardsOfThread;
struct RunBackend;
}  // namespace detail

namespace backward_capture {

/// How captured runs are run.
struct Options {
  /// Which built-in backend runs their graphs: see backend_names(). Whatever it is, hooks, accumulation and nodes that
  /// stay eager run live, and a run that records gradients (create_graph) is the interpreter's.
  std::string backend = default_backend();
  /// If set, compiles their graphs in the backend's place: see compiler_of(). Graphs that it has compiled are found
  /// again where the same one is given.
  std::shared_ptr<const detail::RunBackend> compiler = {};
  /// Whether a run that would be left to autograd's engine is a UserError that says why, and runs nothing.
  bool strict = false;
};

/// Makes a compiler of one's own fit for Options::compiler. It is given the parts of each run that only compute: one
/// graph of gradients if nothing in it runs live. Errors: in a backward, what the compiler throws.
std::shared_ptr<const detail::RunBackend> compiler_of(Compiler compile);

/// What happened to backward runs.
struct Statistics {
  size_t captures = 0;              ///< graphs that were traced
  size_t hits = 0;                  ///< runs that used a graph made before
  size_t size_checks = 0;           ///< hits that were traced: a graph for many sizes met these for the first time
  size_t eager = 0;                 ///< runs that autograd's engine ran because they could not be captured
  std::vector<std::string> misses;  ///< one line per capture: why it had to be made
  /// How many misses there were of each kind: "first backward", "new autograd node", "fewer autograd nodes", "size
  /// changed", "other results", "other ending", "other state", "other hooks", "other backend".
  std::map<std::string, size_t> misses_by_reason;
  std::map<std::string, size_t> eager_by_reason;  ///< why the engine ran them, such as "batched gradients"
};

}  // namespace backward_capture

/// While a guard lives, each backward run that this thread starts runs as one captured graph: every autograd node,
/// whoever made it, with hooks and the accumulation of gradients. The first run of its kind is captured; later runs
/// with the same nodes, constants, sizes and strides run its graph. What a graph can't hold (accumulation, hooks that
/// do more than compute or that Tensor::register_hook has in C++, nodes that can't be replayed on stand-ins) is a
/// hop.autograd_node in it, which runs as in eager and in eager's order. A run that can't be captured at all runs in
/// eager, and the statistics count it by reason: batched gradients, transforms of functions, dispatch modes,
/// forward-mode differentiation, tensor subclasses, nested, sparse, quantized and lazily conjugated tensors, anomaly
/// mode, and runs that are nested more than eight deep. Results, errors, warnings and accumulated gradients are
/// eager's. Guards nest, and the innermost says which backend runs a graph. Threads: each has guards of its own;
/// threads without one run in eager. Source: PyTorch's compiled autograd (torch/csrc/dynamo/compiled_autograd.h), whose
/// interface to nodes it uses. Errors: UserError for an unknown backend, and with Options::strict for a run that the
/// engine would run; c10::Error if another thread is in a backward run while the process's first guard is made.
///
///   dp::BackwardCapture guard({.backend = "xla"});
///   loss.backward();
class BackwardCapture {
 public:
  explicit BackwardCapture(const backward_capture::Options& options = {});
  ~BackwardCapture();
  BackwardCapture(const BackwardCapture&) = delete;
  BackwardCapture& operator=(const BackwardCapture&) = delete;

  /// Returns what happened to the runs that this thread started since the guard was made, also under guards inside it.
  const backward_capture::Statistics& stats() const { return stats_; }
  /// Returns what backend "native" made of the graphs of these runs, the most recent first, as far as they are still
  /// cached: a part for each stretch between code that runs live.
  std::vector<NativeGraph> native_graphs() const { return graphs_.native_graphs(); }
  /// The graphs of these runs, for who wants to ask once the guard is gone.
  const detail::RunGraphs& graphs() const { return graphs_; }

 private:
  friend struct detail::GuardsOfThread;
  backward_capture::Statistics stats_;
  detail::RunGraphs graphs_;
  const backward_capture::Options options_;
  const detail::RunBackend& backend_;
  BackwardCapture* outer_;
};

namespace backward_capture {

/// Does what a BackwardCapture does, for all threads and until disable(); where a thread has a guard, the guard's
/// backend runs its graphs. Where it was enabled before, other options take the place of those. Errors: as the guard.
void enable(const Options& options = {});
void disable();

/// Returns what happened in this process since the last reset(), on all threads.
Statistics statistics();

/// Returns what backend "native" made of all graphs that are cached, those of training steps included: see
/// BackwardCapture::native_graphs(). Threads: any.
std::vector<NativeGraph> native_graphs();

/// Forgets all graphs, and the statistics.
void reset();

/// Returns the graph of this thread's last run: its inputs are the tensors that the run's nodes have saved, its outputs
/// the requested gradients.
/// Errors: UserError if none has run, or if the last one ran in eager.
Graph last_graph();

}  // namespace backward_capture
}  // namespace diptych
