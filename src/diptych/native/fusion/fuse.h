// Groups nodes into hop.fused nodes, one for each kernel.
//
//   graph f(%0 x : f32[2,3])
//     %1 : f32[2,3] = aten.tanh(%0)
//     %2 : f32[2,3] = aten.mul.Tensor(%1, %0)
//     return (%2 y)
// ==>
//   graph f(%0 x : f32[2,3])
//     %1 : f32[2,3] = hop.fused(inputs=[%0]) { ... }
//     return (%1 y)
#pragma once
#include <functional>
#include <vector>

#include "diptych/graph/graph.h"
#include "diptych/native/fusion/fusion_record.h"

namespace diptych::detail {

/// Returns `graph`, and the bodies of its higher-order nodes, with groups of nodes as hop.fused nodes. What a group may
/// be is said in group_rules.h, and what is worth one in cost_model.h. Nodes with an effect keep their order.
/// `is_kernel` has the last word on a body; without it, all that keep the rules are kernels.
/// `record`, if not null, gets what was fused and why not more.
/// Requires: a graph that verifies. Where sizes are dynamic, what a group saves is counted by the hints. Ensures: slots
/// are kept; idempotent.
Graph fuse(const Graph& graph, const std::function<bool(const Graph& body)>& is_kernel = {},
           FusionRecord* record = nullptr);

}  // namespace diptych::detail
