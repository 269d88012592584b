#include "diptych/backends/native/fusion/single_node.h"

#include <algorithm>

#include "diptych/graph/rewrite.h"

namespace diptych::detail {

Graph graph_of_one(const Graph& graph, const Node& node) {
  Rewriter rewriter(graph, Graph("composite"));
  for_each_operand_value(node, [&](Value value) {
    if (graph.info(value).kind == ValueInfo::Kind::kConstant || rewriter.is_mapped(value)) return;
    rewriter.add_input(value, {SlotKind::kArgument, ""});
  });
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
