// One node as a graph of its own.
#pragma once
#include "diptych/graph/graph.h"

namespace diptych::detail {

/// Returns the graph of one node, whose inputs are the tensors that it reads, constants aside, each once.
Graph graph_of_one(const Graph& graph, const Node& node);

}  // namespace diptych::detail
