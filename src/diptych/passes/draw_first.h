// Moves the drawing of random numbers in front of what is computed with them, for backends that leave draws to the
// interpreter: it runs one part of draws, and the backend one program of all the rest.
//
//   graph f(%0 x : f32[2])
//     %1 : f32[2] = aten.tanh(%0)
//     %2 : f32[2] = aten.rand_like(%1)
//     return (%2 y)
// ==>
//   graph f(%0 x : f32[2])
//     %1 : f32[2] = aten.empty_strided([2], [1], dtype=f32, device=device(cpu))
//     %2 : f32[2] = aten.rand_like(%1)
//     %3 : f32[2] = aten.tanh(%0)
//     return (%2 y)
#pragma once
#include "diptych/graph/graph.h"

namespace diptych::detail {

/// Returns `graph` with every draw that reads no elements as far in front as the order of draws allows: see
/// Note [Draws first]. Requires: a graph that verifies, without dynamic sizes. Ensures: each generator is read as by
/// `graph`, draw for draw; slots are kept; idempotent.
Graph draw_first(const Graph& graph);

}  // namespace diptych::detail
