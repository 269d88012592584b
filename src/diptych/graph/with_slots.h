// Lets a graph take the place of another.
#pragma once
#include <vector>

#include "diptych/graph/graph.h"

namespace diptych::detail {

/// Returns `graph`, which computes what `like` computes, perhaps with other nodes, with the name and slots of `like`.
/// Outputs that are none in `like`, which `graph` lacks, are none in the result; inputs of `graph` after those of
/// `like` become the constants `constants`. Strides are those of `graph`: make_pair() checks whether a backward can
/// take them.
/// Errors: UserError if the number of inputs, constants or outputs differs, or if one of them differs in dtype, device
/// or sizes, which it names.
Graph with_slots_of(const Graph& graph, const Graph& like, const std::vector<at::Tensor>& constants);

}  // namespace diptych::detail
