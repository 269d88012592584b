// What two tasks must have in common to be run by one graph, and the tensors that the graph takes.
#pragma once
#include <torch/csrc/dynamo/compiled_autograd.h>

#include <string>
#include <vector>

#include "diptych/autodiff/pass_ending.h"
#include "diptych/autodiff/task_order.h"

namespace diptych::detail {

/// A task's key. `structure` holds, call after call, what kind of node it is and its constants, and how the nodes are
/// connected; `sizes` every size and stride of what they have saved, in the same order.
struct TaskKey {
  std::string structure;
  std::vector<int64_t> sizes;
  struct Part {
    uint32_t structure_end;
    uint32_t sizes_end;
  };
  std::vector<Part> parts;  ///< one per call
  size_t num_results = 0;   ///< gradients that the pass returns, also those that nothing reaches
  std::string ending;       ///< what follows the pass: its key, a line of its own, and the layouts of its inputs

  /// Whether two keys differ in sizes alone, if at all.
  bool same_structure(const TaskKey& other) const {
    return structure == other.structure && num_results == other.num_results && ending == other.ending;
  }
};

/// What a task's nodes say of themselves to whoever compiles them.
class TaskContents {
 public:
  /// `num_results`: as in the key. `ending`: what follows the pass in its graph, or null. Lives as long as the
  /// contents.
  TaskContents(const std::vector<TaskCall>& calls, size_t num_results, bool records_gradients,
               PassEnding* ending = nullptr);

  const TaskKey& key() const { return key_; }
  torch::dynamo::autograd::AutogradCompilerCall& compiler() { return compiler_; }
  /// Whether a call's node is run as it is, because it accumulates a gradient or can't say what it holds.
  const std::vector<bool>& is_live() const { return is_live_; }
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
  /// Where the dimensions stand that the nodes at the ends of a call's edges expect of its gradients, edge after edge.
  size_t place_of_edges(size_t call) const { return calls_[call].edges; }
  /// Whether the pass can be looked at at all: not if a gradient in it is a nested tensor.
  bool can_be_captured() const { return can_be_captured_; }
  PassEnding* ending() const { return ending_; }
  /// The tensors that the graph takes after those of the nodes.
  const std::vector<EndingInput>& ending_inputs() const { return ending_inputs_; }

 private:
  void collect(size_t index, const TaskCall& call);
  bool collect_node(size_t index, const TaskCall& call);
  void collect_edges(const TaskCall& call);
  void append_tensors(size_t index);
  void append_ending();

  torch::dynamo::autograd::AutogradCompilerCall compiler_;
  TaskKey key_;
  std::vector<bool> is_live_;
  bool records_gradients_;
  PassEnding* ending_;
  std::vector<EndingInput> ending_inputs_;
  struct TensorPlace {
    size_t owner;
    size_t place;
  };
  std::vector<TensorPlace> tensors_;
  struct CallSizes {
    Places own;
    size_t edges;
  };
  std::vector<CallSizes> calls_;
  bool can_be_captured_ = true;
  size_t num_sizes_ = 0, num_lifted_ = 0;
};

/// Whether a node is the end of the graph: a leaf's.
bool accumulates(const torch::autograd::Node& node);

}  // namespace diptych::detail
