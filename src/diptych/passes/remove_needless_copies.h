// Removes copies that nobody can distinguish from the tensors that they copy.
//
//   graph f(%0 x : f32[2])
//     %1 : f32[2] = aten.tanh(%0)
//     %2 : f32[2] = aten.clone(%1)
//     %3 : f32[2] = aten.exp(%2)
//     return (%3 y)
// ==>
//   graph f(%0 x : f32[2])
//     %1 : f32[2] = aten.tanh(%0)
//     %2 : f32[2] = aten.exp(%1)
//     return (%2 y)
#pragma once
#include "diptych/graph/graph.h"

namespace diptych::detail {

struct RemoveNeedlessCopiesOptions {
  /// Whether the graph will be differentiated again: copies that were made without recording gradients stop gradients,
  /// and stay.
  bool keep_gradient_stops = true;
};

/// Returns `graph` with the readers of a copy reading the copied tensor. A copy stays where it differs from what it
/// copies (dtype, device, sizes or strides), where it leaves the graph (a fresh output stays fresh, and an output that
/// is a clone of an input stays a copy), and where it preserves for the backward the value of an input or output to
/// which the caller may write. A graph that writes to operands is returned as it is.
/// Requires: a graph that verifies. Ensures: slots are kept; idempotent.
Graph remove_needless_copies(const Graph& graph, const RemoveNeedlessCopiesOptions& options = {});

}  // namespace diptych::detail
