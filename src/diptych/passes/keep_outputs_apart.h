// Seeing to it that what leaves a forward graph shares storage with nothing that it did not share storage with before.
#pragma once
#include "diptych/graph/graph.h"

namespace diptych {

/// The value at the start of the chain of views that makes `value`: the value whose storage it shares.
Value storage_root(const Graph& graph, Value value);

/// Clones outputs that came to share a storage with another output or an input by passes (merged or removed copies),
/// where those of `original` did not. New values of mutated inputs and residuals are left as they are.
/// Requires: both graphs have the same slots.
///   return (%3 a, %3 b)   ==>   %4 = aten.clone(%3); return (%3 a, %4 b)
Graph keep_outputs_apart(const Graph& graph, const Graph& original);

/// Clones the residuals that share storage with one of the inputs at the positions `mutated`: the caller writes to those
/// inputs after the graph has run, and the backward wants what they were.
Graph keep_residuals_of_mutated_inputs(const Graph& forward, const std::vector<size_t>& mutated);

}  // namespace diptych
