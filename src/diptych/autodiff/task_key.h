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
  std::string ending;       ///< what follows the pass: its key, a line of its own, and the layouts of its inputs

  bool operator==(const TaskKey& other) const {
    return structure == other.structure && sizes == other.sizes && ending == other.ending;
  }
};

/// What a task's nodes say of themselves to whoever compiles them.
class TaskContents {
 public:
  /// `ending`: what follows the pass in its graph, or null. Lives as long as the contents.
  TaskContents(const std::vector<TaskCall>& calls, bool records_gradients, PassEnding* ending = nullptr);

  const TaskKey& key() const { return key_; }
  torch::dynamo::autograd::AutogradCompilerCall& compiler() { return compiler_; }
  /// Whether a call's node is run as it is, because it accumulates a gradient or can't say what it holds.
  const std::vector<bool>& is_live() const { return is_live_; }
  /// The call whose node a tensor is of, the first where there are several.
  size_t owner_of_tensor(size_t index) const { return owners_[index]; }
  PassEnding* ending() const { return ending_; }
  /// The tensors that the graph takes after those of the nodes.
  const std::vector<EndingInput>& ending_inputs() const { return ending_inputs_; }

 private:
  void collect(size_t index, const TaskCall& call);
  bool collect_node(const TaskCall& call, torch::dynamo::autograd::NodeCall& node_call);
  void append_sizes(size_t index);
  void append_ending();

  torch::dynamo::autograd::AutogradCompilerCall compiler_;
  TaskKey key_;
  std::vector<bool> is_live_;
  std::vector<size_t> owners_;
  PassEnding* ending_;
  std::vector<EndingInput> ending_inputs_;
  size_t num_sizes_ = 0, num_tensors_ = 0, num_lifted_ = 0;
};

/// Whether a node is the end of the graph: a leaf's.
bool accumulates(const torch::autograd::Node& node);

}  // namespace diptych::detail
