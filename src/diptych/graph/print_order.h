// Constants and nodes of a graph in one order: each constant is placed by its number among the nodes' values.
#pragma once
#include <algorithm>

#include "diptych/graph/graph.h"

namespace diptych::detail {

/// The values of a graph that are constants, in order.
inline std::vector<Value> constant_values(const Graph& graph) {
  std::vector<Value> values;
  for (size_t i = 0; i < graph.num_values(); ++i) {
    const Value value{static_cast<int32_t>(i)};
    if (graph.info(value).kind == ValueInfo::Kind::kConstant) values.push_back(value);
  }
  return values;
}

/// Returns the number below which constants come before the node: its first output's number, or, for a node that makes
/// nothing, one past the highest number that it reads.
inline int32_t first_number_after(const Node& node) {
  for (const Value output : node.outputs) {
    if (output) return output.id;
  }
  int32_t bound = 0;
  for_each_operand_value(node, [&](Value value) { bound = std::max(bound, value.id + 1); });
  return bound;
}

/// Calls `on_constant(graph, value)` and `on_node(graph, node)` in the order in which code() prints them.
template <class OnConstant, class OnNode>
void walk(const Graph& graph, OnConstant&& on_constant, OnNode&& on_node) {
  const auto constants = constant_values(graph);
  size_t next = 0;
  for (const Node& node : graph.nodes()) {
    const int32_t bound = first_number_after(node);
    for (; next < constants.size() && constants[next].id < bound; ++next) on_constant(graph, constants[next]);
    on_node(graph, node);
  }
  for (; next < constants.size(); ++next) on_constant(graph, constants[next]);
}

}  // namespace diptych::detail
