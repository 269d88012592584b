// Moves accumulations behind what a backward run computes after them, so that a backend gets it in one piece.
//
//   graph backward(%0 x : f32[2])
//     %1 : f32[2] = aten.neg(%0)
//     hop.autograd_node(gradients=[%1], call=1, ...)
//     %2 : f32[2] = aten.exp(%1)
//     hop.autograd_node(gradients=[%2], call=2, ...)
//     return ()
// ==>
//   graph backward(%0 x : f32[2])
//     %1 : f32[2] = aten.neg(%0)
//     %2 : f32[2] = aten.exp(%1)
//     hop.autograd_node(gradients=[%1], call=1, ...)
//     hop.autograd_node(gradients=[%2], call=2, ...)
//     return ()
#pragma once
#include <vector>

#include "diptych/graph/graph.h"

namespace diptych::detail {

/// Returns `graph` with each node that accumulates a gradient, and calls no hook, in front of the next node that runs
/// other code of a live backward, or at the end; nobody can look at the leaf's grad() before that. Such nodes keep
/// their order. `accumulations`: by call of the run, whether it is such a node.
/// Ensures: slots are kept; idempotent.
Graph accumulate_last(const Graph& graph, const std::vector<bool>& accumulations);

}  // namespace diptych::detail
