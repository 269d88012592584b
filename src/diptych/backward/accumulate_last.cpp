#include "diptych/backward/accumulate_last.h"

#include "diptych/backward/run_backend.h"
#include "diptych/graph/hop_attributes.h"
#include "diptych/graph/rewrite.h"

namespace diptych::detail {
namespace {

bool is_bare_accumulation(const Node& node, const std::vector<bool>& accumulations) {
  if (!node.op.is_hop() || &node.op.hop() != &autograd_node_schema()) return false;
  const auto attributes = HopAttributes::of(node);
  return static_cast<EagerStage>(attributes.integer("stage")) == EagerStage::kNode &&
         accumulations[attributes.integer("call")];
}

}  // namespace

Graph accumulate_last(const Graph& graph, const std::vector<bool>& accumulations) {
  Rewriter rewriter(graph);
  rewriter.copy_inputs();
  std::vector<const Node*> waiting;
  const auto write_waiting = [&] {
    for (const Node* node : waiting) rewriter.copy_node(*node);
    waiting.clear();
  };
  for (const Node& node : graph.nodes()) {
    if (is_bare_accumulation(node, accumulations)) {
      waiting.push_back(&node);
      continue;
    }
    if (has_effects(node)) write_waiting();
    rewriter.copy_node(node);
  }
  write_waiting();
  return rewriter.finish();
}

}  // namespace diptych::detail
