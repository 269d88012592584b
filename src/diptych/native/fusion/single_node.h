// One node as a graph of its own.
#pragma once
#include "diptych/graph/graph.h"

namespace diptych::detail {

/// The tensors that a node reads, constants aside, each once.
ValueList inputs_of_one(const Graph& graph, const Node& node);

/// Returns the graph of one node, whose inputs are inputs_of_one().
Graph graph_of_one(const Graph& graph, const Node& node);

}  // namespace diptych::detail
