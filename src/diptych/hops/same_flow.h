// Whether two captures of one function, for tensors of different layouts, compute the same.
#pragma once
#include "diptych/graph/graph.h"

namespace diptych::detail {

/// Whether the outputs of both graphs are the same operators applied to the same inputs; copies, orders of dimensions
/// and the ways to reshape aside. They are not where the function writes to what is a copy in one graph and shares
/// memory in the other, as what reshape() and contiguous() return.
bool have_same_flow(const Graph& a, const Graph& b);

}  // namespace diptych::detail
