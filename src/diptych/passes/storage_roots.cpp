#include "diptych/passes/storage_roots.h"

#include <algorithm>

#include "diptych/ops/tags.h"

namespace diptych::detail {
namespace {

Value first_operand_value(const Node& node) {
  Value first;
  for_each_operand_value(node, [&](Value value) {
    if (!first) first = value;
  });
  return first;
}

}  // namespace

std::vector<Value> storage_roots(const Graph& graph) {
  std::vector<Value> roots(graph.num_values());
  for (size_t i = 0; i < roots.size(); ++i) roots[i] = Value{static_cast<int32_t>(i)};
  for (const Node& node : graph.nodes()) {
    if (!has_tag(node.op, Tag::kSharesStorage)) continue;
    const Value base = first_operand_value(node);
    if (!base) continue;
    for (const Value output : node.outputs) {
      if (output) roots[output.id] = roots[base.id];
    }
  }
  return roots;
}

std::vector<bool> escaping_storages(const Graph& graph, const std::vector<Value>& roots) {
  std::vector<bool> escapes(graph.num_values());
  for (const Value output : graph.outputs()) {
    if (output) escapes[roots[output.id].id] = true;
  }
  return escapes;
}

bool has_mutation(const Graph& graph) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(),
                     [](const Node& node) { return has_tag(node.op, Tag::kMutating); });
}

}  // namespace diptych::detail
