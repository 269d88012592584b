#include "diptych/ops/wrong_under_vmap.h"

#include <algorithm>

#include "diptych/graph/rewrite.h"
#include "diptych/ops/emitter.h"

namespace diptych::detail {
namespace {

bool is_wrong(const Node& node) { return !node.op.is_hop() && node.op.name() == "aten.select_scatter"; }

// A select is a slice of one: slice_scatter, which has a rule for batches of its own.
void write_as_slice(Rewriter& rewriter, const Node& node) {
  const auto operands = rewriter.map_operands(node);
  Emitter emitter(rewriter.graph(), node, InternedString("right_under_vmap"));
  Call call(emitter, node, {operands.data(), operands.size()});
  const int64_t dim = call.integer(2), start = call.integer(3);
  const Value source = call.tensor(1).apply("aten.unsqueeze", {c10::IValue(dim)}).value;
  const c10::IValue stop = start == -1 ? c10::IValue() : c10::IValue(start + 1);
  const Value written =
      call.tensor(0)
          .apply("aten.slice_scatter", {source, c10::IValue(dim), c10::IValue(start), stop, c10::IValue(int64_t{1})})
          .value;
  rewriter.map(node.outputs[0], written);
}

}  // namespace

Graph with_right_gradients_under_vmap(const Graph& graph) {
  if (std::none_of(graph.nodes().begin(), graph.nodes().end(), is_wrong)) return graph;
  Rewriter rewriter(graph);
  rewriter.copy_inputs();
  for (const Node& node : graph.nodes()) {
    if (is_wrong(node)) {
      write_as_slice(rewriter, node);
    } else {
      rewriter.copy_node(node);
    }
  }
  return rewriter.finish();
}

}  // namespace diptych::detail
