// Operators that LibTorch itself gets wrong inside of transforms.
#pragma once
#include "diptych/graph/graph.h"

namespace diptych::detail {

/// Returns `graph` without nodes whose gradient LibTorch 2.13 multiplies when it is taken around a vmap, as that of
/// grad(vmap(torch.select_scatter)): others compute the same, and have a right one. Bodies of nodes stay; they are
/// batched by themselves. Ensures: slots are kept; new nodes have the origin "right_under_vmap".
Graph with_right_gradients_under_vmap(const Graph& graph);

}  // namespace diptych::detail
