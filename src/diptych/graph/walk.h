// Constants and nodes of a graph in one order: each constant stands where its number puts it among the nodes' values.
#pragma once
#include "diptych/graph/graph.h"

namespace diptych {

/// The values of a graph that are constants, in order.
inline std::vector<Value> constant_values(const Graph& graph) {
  std::vector<Value> values;
  for (size_t i = 0; i < graph.num_values(); ++i) {
    const Value value{static_cast<int32_t>(i)};
    if (graph.info(value).kind == ValueInfo::Kind::kConstant) values.push_back(value);
  }
  return values;
}

/// Calls `on_constant(graph, value)` and `on_node(graph, node)` in the order in which code() prints them.
template <class OnConstant, class OnNode>
void walk(const Graph& graph, OnConstant&& on_constant, OnNode&& on_node) {
  const auto constants = constant_values(graph);
  size_t next = 0;
  for (const Node& node : graph.nodes()) {
    Value first;
    for (const Value output : node.outputs) {
      if (output && !first) first = output;
    }
    for (; first && next < constants.size() && constants[next] < first; ++next) on_constant(graph, constants[next]);
    on_node(graph, node);
  }
  for (; next < constants.size(); ++next) on_constant(graph, constants[next]);
}

}  // namespace diptych
