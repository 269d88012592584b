#include "diptych/passes/keep_residuals.h"

#include <set>

#include "diptych/graph/rewrite.h"
#include "diptych/passes/storage_roots.h"

namespace diptych::detail {
namespace {

Value add_clone(Graph& graph, Value value) {
  Provenance provenance;
  provenance.origin = InternedString("keep_residuals_of_mutated_inputs");
  Node node{Op::find("aten.clone"), {value, c10::IValue()}, {}, {-1}, {}, provenance, true};
  const size_t index = graph.add_node(std::move(node), {graph.meta(value)});
  return graph.nodes()[index].outputs[0];
}

std::set<size_t> positions_to_clone(const Graph& forward, const std::vector<size_t>& mutated) {
  const auto roots = detail::storage_roots(forward);
  std::set<Value> written;
  for (const size_t input : mutated) written.insert(forward.inputs().at(input));
  std::set<size_t> positions;
  for (size_t i = 0; i < forward.outputs().size(); ++i) {
    const Value output = forward.outputs()[i];
    const bool is_residual = output && forward.output_slots()[i].kind == SlotKind::kResidual;
    if (is_residual && written.count(roots[output.id]) != 0) positions.insert(i);
  }
  return positions;
}

}  // namespace

Graph keep_residuals_of_mutated_inputs(const Graph& forward, const std::vector<size_t>& mutated) {
  if (mutated.empty()) return forward;
  const auto positions = positions_to_clone(forward, mutated);
  if (positions.empty()) return forward;
  Rewriter rewriter(forward);
  rewriter.copy_inputs();
  for (const Node& node : forward.nodes()) rewriter.copy_node(node);
  std::vector<Value> outputs;
  for (size_t i = 0; i < forward.outputs().size(); ++i) {
    const Value value = rewriter[forward.outputs()[i]];
    outputs.push_back(positions.count(i) != 0 ? add_clone(rewriter.graph(), value) : value);
  }
  rewriter.graph().set_outputs(std::move(outputs), forward.output_slots());
  return std::move(rewriter.graph());
}

}  // namespace diptych::detail
