// Copies of small inputs in a joint graph, which a partition may save where it may not save the inputs.
#pragma once
#include "diptych/graph/graph.h"

namespace diptych::detail {

/// Has pointwise nodes of the forward read a copy of an input that is much smaller than their result, such as the bias
/// of a normalization. hidden_min_cut saves an input only where eager does, since the user may write to it; a copy is
/// nobody's, takes little, and lets the backward compute the result again. Copies that no partition saves are removed
/// with needless copies. What becomes of a node depends on nodes of the forward alone.
/// Requires: a joint graph. A graph that writes to operands is returned as it is.
Graph with_copies_of_small_inputs(const Graph& joint);

}  // namespace diptych::detail
