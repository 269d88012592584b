// When two nodes compute the same thing, found by hashing.
#pragma once
#include <unordered_map>
#include <vector>

#include "diptych/graph/graph.h"

namespace diptych::detail {

/// A node with its operands in terms of the graph that holds equal ones.
struct NodeInTerms {
  const Node* node;
  c10::SmallVector<Operand, 4> operands;
};

/// The nodes that were met so far, by what they compute from which values.
class EqualNodes {
 public:
  /// Returns the node that computes the same as `node` of `graph`, from equal operands, with results of the same
  /// metadata: null if there is none. Nodes of which one ran with gradients on and the other off are not equal, nor are
  /// a node of the forward and one of the backward, nor nodes of different checkpoint regions, marks or names.
  const Node* find(const Graph& graph, const NodeInTerms& node) const;
  /// Adds a node of `graph`, which outlives this object as it is.
  void add(const Graph& graph, NodeInTerms node);

 private:
  struct Known {
    const Graph* graph;
    NodeInTerms node;
  };
  std::unordered_map<size_t, std::vector<Known>> by_hash_;
};

}  // namespace diptych::detail
