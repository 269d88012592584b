#include "diptych/passes/remove_dead_nodes.h"

#include <algorithm>

#include "diptych/graph/rewrite.h"
#include "diptych/ops/tags.h"

namespace diptych::detail {

Graph remove_dead_nodes(const Graph& graph, const RemoveDeadNodesOptions& options) {
  std::vector<bool> wanted(graph.num_values());
  for (const Value output : graph.outputs()) {
    if (output) wanted[output.id] = true;
  }
  std::vector<bool> lives(graph.nodes().size());
  for (size_t i = graph.nodes().size(); i-- > 0;) {
    const Node& node = graph.nodes()[i];
    lives[i] = has_effect(node) || (options.keep_forward && node.provenance.phase == Phase::kForward);
    for (const Value output : node.outputs) lives[i] = lives[i] || (output && wanted[output.id]);
    if (lives[i]) for_each_operand_value(node, [&](Value value) { wanted[value.id] = true; });
  }
  // Constants that nothing reads go, too.
  if (graph.constants().empty() && std::find(lives.begin(), lives.end(), false) == lives.end()) return graph;
  Rewriter rewriter(graph);
  rewriter.copy_inputs();
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    if (lives[i]) rewriter.copy_node(graph.nodes()[i]);
  }
  return rewriter.finish();
}

}  // namespace diptych::detail
