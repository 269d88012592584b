#include "diptych/ops/wrong_under_vmap.h"

#include <algorithm>

#include "diptych/graph/rewrite.h"

namespace diptych::detail {
namespace {

bool is_wrong(const Node& node) { return !node.op.is_hop() && node.op.name() == "aten.select_scatter"; }

// Appends a node with one result on behalf of another. Its metadata is known, so that nothing is asked of LibTorch,
// whose levels may be active around.
Value append(Graph& graph, const Node& like, std::string_view op, std::initializer_list<Operand> operands,
             TensorMeta meta) {
  Node node{Op::find(op), {}, {}, {}, {}, like.provenance, like.grad_enabled};
  node.provenance.origin = InternedString("right_under_vmap");
  for (const Operand& operand : operands) node.operands.push_back(operand);
  node.returns = {-1};
  return graph.nodes()[graph.add_node(std::move(node), {std::move(meta)})].outputs[0];
}

TensorMeta unsqueezed(TensorMeta meta, int64_t dim) {
  const auto at = static_cast<size_t>(dim);
  const SizeExpr stride = at < meta.sizes.size() ? meta.sizes[at] * meta.strides[at] : SizeExpr(1);
  meta.sizes.insert(meta.sizes.begin() + dim, SizeExpr(1));
  meta.strides.insert(meta.strides.begin() + dim, stride);
  return meta;
}

// A select is a slice of one: slice_scatter, which has a rule for batches of its own.
void write_as_slice(Rewriter& rewriter, const Node& node, const TensorMeta& result) {
  Graph& graph = rewriter.graph();
  const auto operands = rewriter.map_operands(node);
  const auto number = [&](size_t i) { return std::get<c10::IValue>(operands[i]).toInt(); };
  const auto rank = static_cast<int64_t>(result.sizes.size());
  const int64_t dim = number(2) < 0 ? number(2) + rank : number(2), start = number(3);
  const Value source = std::get<Value>(operands[1]);
  const Value slice =
      append(graph, node, "aten.unsqueeze", {source, c10::IValue(dim)}, unsqueezed(graph.meta(source), dim));
  const c10::IValue stop = start == -1 ? c10::IValue() : c10::IValue(start + 1);
  rewriter.map(
      node.outputs[0],
      append(graph, node, "aten.slice_scatter",
             {operands[0], slice, c10::IValue(dim), c10::IValue(start), stop, c10::IValue(int64_t{1})}, result));
}

}  // namespace

Graph with_right_gradients_under_vmap(const Graph& graph) {
  if (std::none_of(graph.nodes().begin(), graph.nodes().end(), is_wrong)) return graph;
  Rewriter rewriter(graph);
  rewriter.copy_inputs();
  for (const Node& node : graph.nodes()) {
    if (is_wrong(node)) {
      write_as_slice(rewriter, node, graph.meta(node.outputs[0]));
    } else {
      rewriter.copy_node(node);
    }
  }
  return rewriter.finish();
}

}  // namespace diptych::detail
