// Rewrites composite operators as arithmetic, for backends that know few operators.
//
//   graph f(%0 x : f32[2])
//     %1 : f32[2] = aten.silu(%0)
//     return (%1 y)
// ==>
//   graph f(%0 x : f32[2])
//     %1 : f32[2] = aten.sigmoid(%0)
//     %2 : f32[2] = aten.mul.Tensor(%0, %1)
//     return (%2 y)
#pragma once
#include <functional>

#include "diptych/graph/graph.h"

namespace diptych::detail {

/// Returns whether a node stays as it is; a backend's supports() has this form.
using KeepsNode = std::function<bool(const Graph&, const Node&)>;

/// Returns `graph` with nodes that have a rule (ops/decompositions.h) decomposed, repeatedly, until none is left except
/// those that `keeps` keeps; without `keeps`, none is left. Nodes with operands of dynamic size stay. Rounding may
/// differ from the kernel's; sizes, strides and dtypes do not: a result that a rule lays out differently is copied.
/// Requires: a graph that verifies. Ensures: slots are kept; new nodes have the origin "decompose", or "recompute" like
/// the node that they replace, and its regions; if a checkpoint saves that node, or it has a residual name, its results
/// are saved and named, and intermediate values are recomputed; idempotent.
Graph decompose(const Graph& graph, const KeepsNode& keeps = {});

}  // namespace diptych::detail
