// Where the nodes of a trace come from.
#pragma once
#include <ATen/core/Tensor.h>

#include <string_view>
#include <vector>

#include "diptych/graph/graph.h"
#include "diptych/ops/checkpoint_policy.h"
#include "diptych/trace/primal_table.h"

namespace diptych::detail {

/// Knows, while a graph is built, which part of the program records into it: forward or backward, the user's scope and
/// line, the open checkpoint regions, the node of another graph that is replayed, and in a backward the forward node
/// whose gradient is computed. It also finds values whose history the graph lost.
/// Assumes: `graph` outlives it; remember() is called for each node, right after autograd's kernel for it ran.
class ProvenanceTracker {
 public:
  explicit ProvenanceTracker(Graph& graph) : graph_(graph) {}
  ProvenanceTracker(const ProvenanceTracker&) = delete;
  ProvenanceTracker& operator=(const ProvenanceTracker&) = delete;

  /// Returns the provenance of a node that is recorded now.
  Provenance current() const;
  /// Remembers the value that a node of the forward computes, for the gradients of it.
  void remember(const Node& node);

  Phase phase() const { return phase_; }
  /// From now on a backward is recorded; with `create_graph` one that autograd records as well.
  void begin_backward(bool create_graph);
  /// Whether a backward is recorded that autograd records as well.
  bool creates_graph() const { return create_graph_; }
  /// Whether the grad mode lets autograd record what is traced now.
  bool records_gradients() const;
  /// Says whose gradient is recorded from now on: that of the autograd node with this sequence number.
  void set_backward_of(uint64_t sequence_number) { backward_of_ = sequence_number; }

  /// Says that the forward nodes recorded from now on replay `node` of another graph, whose scope, regions, marks and
  /// names they take; null ends this.
  void set_replayed(const Node* node) { replayed_ = node; }

  /// Opens a checkpoint region inside the innermost open one; forward nodes that are recorded until it is left belong
  /// to it. Errors: UserError if regions nest too deep.
  void enter_region(CheckpointPolicy policy);
  void leave_region() { open_regions_.pop_back(); }
  /// Gives the node that computes `value` a residual name, or notes that an input has it.
  void name_residual(Value value, std::string_view name);
  /// The regions that were opened, and the names that were given to inputs.
  const CheckpointedRegions& regions() const { return regions_; }

  /// Looks whether the graph lacks the history of an operand of a backward with `create_graph`, a stand-in of this
  /// trace, though autograd knows one that leads to a primal.
  void note_operand(const at::Tensor& operand, const PrimalTable& primals);
  /// Returns the last value of the forward for which note_operand() found that; none if there is none.
  Value lost_history() const { return lost_history_; }

 private:
  Value forward_value_of(uint64_t sequence_number) const;

  Graph& graph_;
  Phase phase_ = Phase::kForward;
  bool create_graph_ = false;
  const Node* replayed_ = nullptr;
  CheckpointedRegions regions_;
  std::vector<InternedString> open_regions_;
  Value lost_history_;
  uint64_t backward_of_ = 0;
  /// For each autograd node of the forward, counted from the first, the last value that was recorded under it.
  std::vector<Value> forward_values_;
  uint64_t first_forward_node_ = 0;
};

}  // namespace diptych::detail
