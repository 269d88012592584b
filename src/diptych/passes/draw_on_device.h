// Makes random numbers a function of a seed, for backends that draw for themselves: the host draws the seed alone.
//
//   graph f(%0 x : f32[2])
//     %1 : f32[2] = aten.tanh(%0)
//     %2 : f32[2] = aten.rand_like(%1)
//     return (%2 y)
// ==>
//   graph f(%0 x : f32[2])
//     %1 : i64[2] = aten.randint.low(-9223372036854775808, 9223372036854775807, [2], device=device(cpu))
//     %2 : f32[2] = aten.tanh(%0)
//     %3 : i32[2], %4 : i64[2] = diptych.draw_bits(%1, [2], i32)
//     ... the arithmetic that makes numbers of bits
#pragma once
#include "diptych/graph/graph.h"

namespace diptych::detail {

/// Returns `graph` with every draw that find_sampler() knows written as arithmetic on random bits, those in the bodies
/// of loops and branches too: see Note [Draws from a seed]. Draws from a generator of the caller's, and others that
/// have no sampler, stay. Requires: a graph that verifies, without dynamic sizes. Ensures: slots are kept; the seed is
/// drawn in front of everything, from LibTorch's generator of the CPU; idempotent.
Graph draw_on_device(const Graph& graph);

}  // namespace diptych::detail
