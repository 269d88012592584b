// Preserves residuals when the caller writes to an input after the forward graph has run.
//
//   graph forward(%0 x : f32[2])                 with input 0 mutated
//     return (%1 y, %2 x, %0 residual.0)
// ==>
//     %3 : f32[2] = aten.clone(%0)
//     return (%1 y, %2 x, %3 residual.0)
#pragma once
#include "diptych/graph/graph.h"

namespace diptych::detail {

/// Clones the residuals that share storage with one of the inputs at the positions `mutated`: the caller writes their
/// new values to those inputs after the run, and the backward needs the old values.
/// Requires: a forward graph that verifies. Ensures: slots are kept; idempotent.
Graph keep_residuals_of_mutated_inputs(const Graph& forward, const std::vector<size_t>& mutated);

}  // namespace diptych::detail
