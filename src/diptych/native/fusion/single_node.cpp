#include "diptych/native/fusion/single_node.h"

#include <algorithm>

#include "diptych/graph/rewrite.h"

namespace diptych::detail {

ValueList inputs_of_one(const Graph& graph, const Node& node) {
  ValueList inputs;
  for_each_operand_value(node, [&](Value value) {
    if (graph.info(value).kind == ValueInfo::Kind::kConstant) return;
    if (std::find(inputs.begin(), inputs.end(), value) == inputs.end()) inputs.push_back(value);
  });
  return inputs;
}

Graph graph_of_one(const Graph& graph, const Node& node) {
  Rewriter rewriter(graph, Graph("composite"));
  for (const Value value : inputs_of_one(graph, node)) rewriter.add_input(value, {SlotKind::kArgument, ""});
  rewriter.copy_node(node);
  std::vector<Value> outputs;
  for (const Value value : node.outputs) {
    if (value) outputs.push_back(rewriter[value]);
  }
  std::vector<Slot> slots(outputs.size(), {SlotKind::kOutput, ""});
  rewriter.graph().set_outputs(std::move(outputs), std::move(slots));
  return std::move(rewriter.graph());
}

}  // namespace diptych::detail
