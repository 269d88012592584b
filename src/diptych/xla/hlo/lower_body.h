// Graphs inside programs: which nodes XLA can take, composites decomposed, and bodies of higher-order operators.
#pragma once
#include <vector>

#include "diptych/graph/graph.h"
#include "diptych/xla/hlo/hlo_writer.h"

namespace diptych::detail {

/// Returns whether a node, with all nodes of its bodies, has a lowering or decomposes into nodes that have one.
bool is_lowered(const Graph& graph, const Node& node);

/// Returns whether the nodes of a body are lowered, and its constants have one element each.
bool are_lowered(const Graph& body);

/// Returns the graph with composite operators as operators that have lowerings. Bodies are left as they are.
Graph in_lowered_operators(const Graph& graph);

/// Returns in_lowered_operators(graph) if XLA takes all that was decomposed; else the graph, for whose composites the
/// interpreter has kernels.
Graph in_lowered_operators_if_whole(const Graph& graph);

/// Writes the nodes of a body, and returns its results. Requires: is_lowered() for each node, and one input per slot.
std::vector<Hlo> lower_body(HloWriter& writer, const Graph& body, std::vector<Hlo> inputs);

}  // namespace diptych::detail
