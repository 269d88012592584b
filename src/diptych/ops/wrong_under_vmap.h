// Operators that LibTorch itself gets wrong inside of transforms.
#pragma once
#include "diptych/graph/graph.h"

namespace diptych::detail {

/// Returns `graph` without nodes that LibTorch 2.13 has no right rule for in a vmap; others compute the same. Around a
/// vmap the gradient of select_scatter is multiplied; slice_scatter takes no ends that count from the back or lie
/// beyond; view refuses what a kernel has laid out in another way for a batch; as_strided_scatter has no rule. Bodies
/// of nodes stay; they are batched by themselves. Ensures: slots are kept; new nodes have the origin
/// "right_under_vmap".
Graph with_rules_for_batches(const Graph& graph);

}  // namespace diptych::detail
