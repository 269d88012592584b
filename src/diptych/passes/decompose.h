// Writes composite kernels out as arithmetic, for backends that know few operators.
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

namespace diptych {

/// Says which nodes stay as they are; a backend's supports() has this form.
using KeepsNode = std::function<bool(const Graph&, const Node&)>;

/// Returns `graph` with every node decomposed that has a rule (ops/decompositions.h) and that `keeps` does not want,
/// again and again until none is left; without `keeps`, every node that has a rule. Nodes with operands of dynamic size
/// stay. Rounding may differ from the kernel's; sizes, strides and dtypes do not: where a rule lays a result out in
/// another way it is copied.
/// Requires: a graph that verifies. Ensures: slots are kept; new nodes have the origin "decompose" and the regions of
/// the node in whose place they stand; of a node that a checkpoint saves, or that has a residual name, the results are
/// saved and named, and what is computed inside is recomputed; idempotent.
Graph decompose(const Graph& graph, const KeepsNode& keeps = {});

}  // namespace diptych
