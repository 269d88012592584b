// Removes views that reproduce a tensor that already exists: a view of the same shape, transposing twice, expanding to
// the same size.
//
//   graph f(%0 x : f32[2,3])
//     %1 : f32[3,2]{1,3} = aten.t(%0)
//     %2 : f32[2,3] = aten.t(%1)
//     %3 : f32[2,3] = aten.exp(%2)
//     return (%3 y)
// ==>
//   graph f(%0 x : f32[2,3])
//     %1 : f32[3,2]{1,3} = aten.t(%0)
//     %2 : f32[2,3] = aten.exp(%0)
//     return (%2 y)
#pragma once
#include "diptych/graph/graph.h"

namespace diptych::detail {

struct RemoveNeedlessViewsOptions {
  /// Whether the graph will be differentiated again: detach, and views taken without recording gradients, stop
  /// gradients, and stay.
  bool keep_gradient_stops = true;
};

/// Returns `graph` with the readers of a needless view reading the tensor itself. Only chains of views that keep the
/// number of elements and the dtype are looked through. A view that is an output stays: it is a tensor of its own.
/// Views that nobody reads any more are left for remove_dead_nodes().
/// Requires: a graph that verifies. Ensures: slots are kept; idempotent.
Graph remove_needless_views(const Graph& graph, const RemoveNeedlessViewsOptions& options = {});

}  // namespace diptych::detail
