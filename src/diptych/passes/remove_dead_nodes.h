// Removes nodes that no output needs. Nodes with an effect stay: random ones, which must draw as eager draws, those
// that write to an operand, and assertions.
//
//   graph f(%0 x : f32[2])
//     %1 : f32[2] = aten.tanh(%0)
//     %2 : f32[2] = aten.bernoulli.p(%0, 0.5)
//     return (%0 y)
// ==>
//   graph f(%0 x : f32[2])
//     %1 : f32[2] = aten.bernoulli.p(%0, 0.5)
//     return (%0 y)
#pragma once
#include "diptych/graph/graph.h"

namespace diptych::detail {

struct RemoveDeadNodesOptions {
  /// Keeps every node that was recorded in the user's forward, so that the joint graphs of several backward variants
  /// keep sharing their forward nodes; split_joint() drops what neither side needs.
  bool keep_forward = false;
};

/// Returns `graph` without dead nodes and without constants that nothing reads.
/// Requires: a graph that verifies. Ensures: slots are kept; every node is needed or has an effect; idempotent.
Graph remove_dead_nodes(const Graph& graph, const RemoveDeadNodesOptions& options = {});

}  // namespace diptych::detail
