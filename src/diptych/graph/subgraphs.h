// Questions to the subgraphs of a node.
#pragma once
#include <algorithm>

#include "diptych/graph/graph.h"

namespace diptych::detail {

/// Whether `predicate` holds for one of a node's subgraphs; those that are absent are passed over.
template <class Predicate>
bool any_subgraph(const Node& node, const Predicate& predicate) {
  return std::any_of(node.subgraphs.begin(), node.subgraphs.end(),
                     [&](const auto& subgraph) { return subgraph && predicate(*subgraph); });
}

/// Whether `predicate` holds for a node of one of a node's subgraphs. It may ask the same of that node's own.
template <class Predicate>
bool any_subgraph_node(const Node& node, const Predicate& predicate) {
  return any_subgraph(node, [&](const Graph& subgraph) {
    return std::any_of(subgraph.nodes().begin(), subgraph.nodes().end(), predicate);
  });
}

}  // namespace diptych::detail
