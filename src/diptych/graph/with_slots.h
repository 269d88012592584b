// A graph that takes another one's place.
#pragma once
#include <vector>

#include "diptych/graph/graph.h"

namespace diptych {

/// Returns `graph` with the name, the inputs and the outputs of `like`, whose computation it is, perhaps by other
/// nodes: slots are those of `like`, outputs that are none there are none, and its inputs behind those of `like` are
/// the tensors `constants`. Strides are those of `graph`: make_pair() says whether a backward can take them.
/// Errors: UserError for another number of inputs, constants or outputs, and for one of another dtype or device or of
/// other sizes, by name.
Graph with_slots_of(const Graph& graph, const Graph& like, const std::vector<at::Tensor>& constants);

}  // namespace diptych
