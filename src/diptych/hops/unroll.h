// Several steps of a loop as one graph.
#pragma once
#include "diptych/graph/graph.h"

namespace diptych::detail {

/// Returns whether each step can lay its carries out for the next one: those that it must copy are contiguous.
bool can_unroll(const Graph& body, size_t num_carries);

/// Returns `count` steps of `body` one after the other. `body`: (carries, slices, free) -> (carries, outputs). Result:
/// (carries, the first step's slices, the second's, ..., free) -> (carries, the first step's outputs, the second's,
/// ...). It computes what the steps compute, bit for bit and draw for draw. Requires: can_unroll(), and `count` is
/// positive.
Graph unroll(const Graph& body, size_t num_carries, size_t num_slices, int64_t count);

}  // namespace diptych::detail
