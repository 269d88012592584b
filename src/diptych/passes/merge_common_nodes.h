// Merges nodes that compute the same thing from the same operands, constants with the same bytes included.
//
//   graph f(%0 x : f32[2])
//     %1 : f32[2] = aten.tanh(%0)
//     %2 : f32[2] = aten.tanh(%0)
//     %3 : f32[2] = aten.mul.Tensor(%1, %2)
//     return (%3 y)
// ==>
//   graph f(%0 x : f32[2])
//     %1 : f32[2] = aten.tanh(%0)
//     %2 : f32[2] = aten.mul.Tensor(%1, %1)
//     return (%2 y)
#pragma once
#include "diptych/graph/graph.h"

namespace diptych::detail {

/// Returns `graph` with the first of each class of equal nodes in place of the others. It never merges nodes with an
/// effect, such as random draws; two nodes of which one ran with gradients on and the other off; a node of the forward
/// with one of the backward (autograd recomputes what it did not save: merging would make the default partition keep
/// the forward's result, and only min-cut may make that choice); nodes of the forward in different checkpoint regions,
/// or with different marks or names there (what one region recomputes must not be kept for another); nodes whose
/// storage leaves the graph (two separate outputs would become one). A graph that writes to operands is returned as it
/// is.
/// Requires: a graph that verifies. Ensures: slots are kept; no two nodes are equal in this sense; idempotent.
Graph merge_common_nodes(const Graph& graph);

}  // namespace diptych::detail
