// What two tasks must have in common to be run by one graph, and the tensors that the graph takes.
#pragma once
#include <torch/csrc/dynamo/compiled_autograd.h>

#include <memory>
#include <string>
#include <vector>

#include "diptych/backward/run_ending.h"
#include "diptych/backward/run_order.h"

namespace diptych::detail {

/// A task's key. `structure` holds, call after call, what kind of node it is and its constants, how many gradients it
/// takes and gives, its hooks, the kinds of the tensors that it has saved, and how the nodes are connected; `sizes`
/// every size and stride of what they have saved, in the same order.
struct RunKey {
  std::string surroundings;  ///< the thread's state, as whoever captures sums it up
  std::string structure;
  std::vector<int64_t> sizes;
  struct Part {
    uint32_t structure_end;
    uint32_t sizes_end;
  };
  std::vector<Part> parts;  ///< one per call
  size_t num_results = 0;   ///< gradients that the run returns, also those that nothing reaches
  std::string ending;       ///< what follows the run: its key, a line of its own, and the layouts of its inputs

  /// Whether two keys differ in sizes alone, if at all.
  bool same_structure(const RunKey& other) const {
    return structure == other.structure && num_results == other.num_results && ending == other.ending &&
           surroundings == other.surroundings;
  }
};

/// Makes what is held while nodes are asked what they hold: where Python is loaded, its interpreter's lock, as saved
/// tensors with hooks hand out Python objects. Set once, before any run is captured; without it nothing is held.
using AskingGuard = std::shared_ptr<void> (*)();
void set_asking_guard(AskingGuard make);

/// What a task's nodes say of themselves to whoever compiles them.
class RunContents {
 public:
  /// `num_results`, `surroundings`: as in the key. `ending`: what follows the run in its graph, or null. Lives as long
  /// as the contents.
  RunContents(const std::vector<RunCall>& calls, size_t num_results, bool records_gradients, std::string surroundings,
              RunEnding* ending = nullptr);

  const RunKey& key() const { return key_; }
  torch::dynamo::autograd::AutogradCompilerCall& compiler() { return compiler_; }
  /// Whether a call's node stays eager, because it accumulates a gradient or can't say what it holds.
  const std::vector<bool>& is_eager() const { return is_eager_; }
  /// The call whose node a tensor is of, the first where there are several.
  size_t owner_of_tensor(size_t index) const { return tensors_[index].owner; }
  /// Where a tensor's sizes, then its strides, stand in the key's sizes.
  size_t place_of_tensor(size_t index) const { return tensors_[index].place; }
  /// Where in the key's sizes those stand that a call's node holds itself.
  struct Places {
    size_t begin;
    size_t end;
  };
  Places places_of_node(size_t call) const { return calls_[call].own; }
  /// The number of the first of the values that a call's node lifts into the graph, among those of all nodes.
  size_t first_lifted(size_t call) const { return calls_[call].first_lifted; }
  /// Where the dimensions stand that the nodes at the ends of a call's edges expect of its gradients, edge after edge.
  size_t place_of_edges(size_t call) const { return calls_[call].edges; }
  /// Why the run can't be captured, in a few words, or null.
  const char* obstacle() const { return obstacle_; }
  RunEnding* ending() const { return ending_; }
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

/// Whether a node is the end of the graph: a leaf's.
bool accumulates(const torch::autograd::Node& node);

}  // namespace diptych::detail
