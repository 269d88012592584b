// Operators that LibTorch itself gets wrong inside of transforms.
#pragma once
#include "diptych/graph/graph.h"

namespace diptych::detail {

/// Whether a graph has a node whose gradient LibTorch 2.13 multiplies when it is taken around a vmap:
/// grad(vmap(torch.select_scatter)).
bool has_wrong_gradient_under_vmap(const Graph& graph);

}  // namespace diptych::detail
