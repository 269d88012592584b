#include "diptych/graph/with_slots.h"

#include <algorithm>

#include "diptych/base/error.h"
#include "diptych/graph/rewrite.h"

namespace diptych {

Graph with_slots_of(const Graph& graph, const Graph& like, const std::vector<at::Tensor>& constants) {
  const size_t num_inputs = like.inputs().size();
  const auto num_outputs = static_cast<size_t>(std::count_if(like.outputs().begin(), like.outputs().end(),
                                                             [](Value value) { return static_cast<bool>(value); }));
  DIPTYCH_CHECK(
      graph.inputs().size() == num_inputs + constants.size() && graph.outputs().size() == num_outputs,
      "[with_slots_of] the graph has {} inputs, {} of them constants, and {} outputs, expected {} inputs besides "
      "constants and {} outputs; keep those of the graph that it was made from",
      graph.inputs().size(), constants.size(), graph.outputs().size(), num_inputs, num_outputs);
  Rewriter rewriter(graph);
  for (size_t i = 0; i < num_inputs; ++i) rewriter.add_input(graph.inputs()[i], like.input_slots()[i]);
  for (size_t i = 0; i < constants.size(); ++i) {
    rewriter.map(graph.inputs()[num_inputs + i], rewriter.graph().add_constant(constants[i]));
  }
  for (const Node& node : graph.nodes()) rewriter.copy_node(node);
  std::vector<Value> outputs;
  auto next = graph.outputs().begin();
  for (const Value output : like.outputs()) outputs.push_back(output ? rewriter[*next++] : Value{});
  rewriter.graph().set_outputs(std::move(outputs), like.output_slots());
  rewriter.graph().set_name(like.name());
  return std::move(rewriter.graph());
}

}  // namespace diptych
