// What two tasks must have in common to be run by one graph, and the tensors that the graph takes.
#pragma once
#include <torch/csrc/dynamo/compiled_autograd.h>

#include <string>
#include <vector>

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
};

/// What a task's nodes say of themselves to whoever compiles them.
class TaskContents {
 public:
  /// `opaque`: calls whose nodes are not asked, being run as they are.
  TaskContents(const std::vector<TaskCall>& calls, bool records_gradients);

  const TaskKey& key() const { return key_; }
  torch::dynamo::autograd::AutogradCompilerCall& compiler() { return compiler_; }
  /// Whether a call's node is run as it is, because it accumulates a gradient or can't say what it holds.
  const std::vector<bool>& is_live() const { return is_live_; }
  /// The call whose node a tensor is of, the first where there are several.
  size_t owner_of_tensor(size_t index) const { return tensors_[index].owner; }
  /// Where a tensor's sizes, then its strides, stand in the key's sizes.
  size_t place_of_tensor(size_t index) const { return tensors_[index].place; }
  /// Which of the compiler's sizes are those that a call's node holds itself: from here to where its edges' begin.
  size_t first_size(size_t call) const { return calls_[call].first_size; }
  /// Of those, the first that describes what the node's edges expect: dimensions, edge after edge.
  size_t first_edge_size(size_t call) const { return calls_[call].first_edge_size; }
  /// Where one of the compiler's sizes stands in the key's.
  size_t place_of_size(size_t index) const { return size_places_[index]; }

 private:
  void collect(size_t index, const TaskCall& call);
  bool collect_node(const TaskCall& call, torch::dynamo::autograd::NodeCall& node_call);
  void append_sizes(size_t index);

  torch::dynamo::autograd::AutogradCompilerCall compiler_;
  TaskKey key_;
  std::vector<bool> is_live_;
  struct TensorPlace {
    size_t owner;
    size_t place;
  };
  std::vector<TensorPlace> tensors_;
  struct CallSizes {
    size_t first_size;
    size_t first_edge_size;
  };
  std::vector<CallSizes> calls_;
  std::vector<size_t> size_places_;
  size_t num_lifted_ = 0;
};

/// Whether a node is the end of the graph: a leaf's.
bool accumulates(const torch::autograd::Node& node);

}  // namespace diptych::detail
