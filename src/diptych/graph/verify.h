// The checker of graphs: what every pass may rely on, and every pass must keep.
#pragma once
#include <optional>
#include <string>

#include "diptych/graph/graph.h"

namespace diptych {

namespace detail {
/// What is wrong with a graph, and at which node if it is a node's fault.
struct GraphProblem {
  std::optional<size_t> node;
  std::string what;
};

/// Returns the first thing that is wrong with a graph: an operand that is used before it is made or does not fit the
/// schema, results that do not fit it, impossible metadata (rank of strides, negative sizes, symbols with two hints),
/// slots on the wrong side, outputs that are not values, subgraphs that are missing or wrong themselves, more marks
/// than regions.
std::optional<GraphProblem> find_problem(const Graph& graph);
}  // namespace detail

/// Throws InternalError with the problem and the nodes around it, if there is one.
void verify(const Graph& graph);

}  // namespace diptych
