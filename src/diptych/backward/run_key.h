// What two backward runs must have in common to share a graph, and the tensors that the graph takes.
#pragma once
#include <torch/csrc/dynamo/compiled_autograd.h>

#include <memory>
#include <string>
#include <vector>

#include "diptych/backward/run_backend.h"
#include "diptych/backward/run_ending.h"
#include "diptych/backward/run_order.h"

namespace diptych::detail {

/// A run's key. `structure` holds, call after call, the kind of the node and its constants, how many gradients it takes
/// and returns, its hooks, the kinds of the tensors that it has saved, and how the nodes are connected; `sizes` holds
/// every size and stride of the saved tensors, in the same order.
struct RunKey {
  std::string backend;       ///< by name
  std::string surroundings;  ///< the thread's state, as the capturing code describes it
  std::string structure;
  std::vector<int64_t> sizes;
  struct Part {
    uint32_t structure_end;
    uint32_t sizes_end;
  };
  std::vector<Part> parts;  ///< one per call
  size_t num_results = 0;   ///< gradients that the run returns, including those that nothing reaches
  std::string ending;       ///< what follows the run: its key, on a line of its own, then the layouts of its inputs

  /// Whether two keys differ in sizes alone, if at all.
  bool same_structure(const RunKey& other) const {
    return structure == other.structure && num_results == other.num_results && ending == other.ending &&
           surroundings == other.surroundings && backend == other.backend;
  }
};

/// Makes a guard that is held while nodes are asked what they hold. Where Python is loaded it holds the interpreter's
/// lock, since saved tensors with hooks hand out Python objects. Set it once, before any run is captured; without it
/// nothing is held.
using AskingGuard = std::shared_ptr<void> (*)();
void set_asking_guard(AskingGuard make);

/// What a run's nodes say of themselves when they are asked to be compiled.
class RunContents {
 public:
  /// `num_results`, `surroundings`: as in the key. `ending`: what follows the run in its graph, or null; it outlives
  /// the contents.
  RunContents(const std::vector<RunCall>& calls, size_t num_results, bool records_gradients, std::string surroundings,
              const RunBackend& backend, RunEnding* ending = nullptr);

  const RunKey& key() const { return key_; }
  torch::dynamo::autograd::AutogradCompilerCall& compiler() { return compiler_; }
  /// Whether a call's node stays eager, because it accumulates a gradient or can't say what it holds.
  const std::vector<bool>& is_eager() const { return is_eager_; }
  /// Returns the call whose node has saved a tensor, the first if there are several.
  size_t owner_of_tensor(size_t index) const { return tensors_[index].owner; }
  /// Returns where in the key's sizes a tensor's sizes, then its strides, begin.
  size_t place_of_tensor(size_t index) const { return tensors_[index].place; }
  /// A range of the key's sizes: those that a call's node holds itself.
  struct Places {
    size_t begin;
    size_t end;
  };
  Places places_of_node(size_t call) const { return calls_[call].own; }
  /// Returns the number, among those of all nodes, of the first value that a call's node lifts into the graph.
  size_t first_lifted(size_t call) const { return calls_[call].first_lifted; }
  /// Returns where in the key's sizes the gradients' dimensions begin that the nodes at a call's edges expect, edge
  /// after edge.
  size_t place_of_edges(size_t call) const { return calls_[call].edges; }
  /// Returns why the run can't be captured, in a few words, or null.
  const char* obstacle() const { return obstacle_; }
  RunEnding* ending() const { return ending_; }
  /// Returns what runs the graph; null for the interpreter, which alone can record gradients.
  const RunBackend* other_backend() const {
    return records_gradients_ || backend_.backend == nullptr ? nullptr : &backend_;
  }
  /// The tensors that the graph takes after those of the nodes.
  const std::vector<EndingInput>& ending_inputs() const { return ending_inputs_; }

 private:
  void collect(size_t index, const RunCall& call);
  bool collect_node(size_t index, const RunCall& call);
  void collect_edges(const RunCall& call);
  void append_tensors(size_t index);
  void append_lifted();
  void append_ending();
  void note_obstacle(const char* reason) {
    if (obstacle_ == nullptr) obstacle_ = reason;
  }

  torch::dynamo::autograd::AutogradCompilerCall compiler_;
  RunKey key_;
  std::vector<bool> is_eager_;
  bool records_gradients_;
  const RunBackend& backend_;
  RunEnding* ending_;
  std::vector<EndingInput> ending_inputs_;
  struct TensorPlace {
    size_t owner;
    size_t place;
  };
  std::vector<TensorPlace> tensors_;
  struct CallSizes {
    Places own;
    size_t edges;
    size_t first_lifted;
  };
  std::vector<CallSizes> calls_;
  const char* obstacle_ = nullptr;
  size_t num_sizes_ = 0, num_lifted_ = 0;
};

/// Whether a node accumulates the gradient of a leaf, and so is an end of the graph.
bool accumulates(const torch::autograd::Node& node);

}  // namespace diptych::detail
