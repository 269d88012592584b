// Random bits as a function of a state: an operator that a graph can hold, and a backend can lower.
#pragma once
#include "diptych/graph/op.h"

namespace diptych::detail {

/// Returns "diptych.draw_bits(Tensor state, int[] size, ScalarType dtype) -> (Tensor, Tensor)", which Op::find() knows
/// from the first call on. The state is i64 [2]: a key, and a counter that says how far its stream has been read. The
/// results are bits of dtype i32 or i64, and the state behind them. It is pure: one state gives the same bits in every
/// run of one backend, but not in another backend. Streams of different keys have nothing to do with each other.
/// Errors: UserError from a call with another state or dtype. Threads: any.
const Op& draw_bits_operator();

}  // namespace diptych::detail
