#include "diptych/graph/with_slots.h"

#include <algorithm>

#include "diptych/base/check.h"
#include "diptych/graph/rewrite.h"

namespace diptych::detail {
namespace {

void check_type(const char* what, size_t index, const Slot& slot, const TensorMeta& got, const TensorMeta& expected) {
  DIPTYCH_CHECK(got.dtype == expected.dtype && got.device == expected.device && got.sizes == expected.sizes,
                "[with_slots_of] {} {} ('{}') is {}, expected {}; keep the dtypes and sizes of the source graph", what,
                index, slot.path, type_string(got), type_string(expected));
}

}  // namespace

Graph with_slots_of(const Graph& graph, const Graph& like, const std::vector<at::Tensor>& constants) {
  const size_t num_inputs = like.inputs().size();
  const auto num_outputs = static_cast<size_t>(std::count_if(like.outputs().begin(), like.outputs().end(),
                                                             [](Value value) { return static_cast<bool>(value); }));
  DIPTYCH_CHECK(graph.inputs().size() == num_inputs + constants.size() && graph.outputs().size() == num_outputs,
                "[with_slots_of] the graph has {} inputs, {} of them constants, and {} outputs, expected {} inputs "
                "besides constants and {} outputs; keep those of the source graph",
                graph.inputs().size(), constants.size(), graph.outputs().size(), num_inputs, num_outputs);
  Rewriter rewriter(graph);
  for (size_t i = 0; i < num_inputs; ++i) {
    const Slot& slot = like.input_slots()[i];
    check_type("input", i, slot, graph.meta(graph.inputs()[i]), like.meta(like.inputs()[i]));
    rewriter.add_input(graph.inputs()[i], slot);
  }
  for (size_t i = 0; i < constants.size(); ++i) {
    rewriter.map(graph.inputs()[num_inputs + i], rewriter.graph().add_constant(constants[i]));
  }
  for (const Node& node : graph.nodes()) rewriter.copy_node(node);
  std::vector<Value> outputs;
  auto next = graph.outputs().begin();
  for (const Value output : like.outputs()) {
    outputs.push_back(output ? rewriter[*next] : Value{});
    if (!output) continue;
    const size_t index = outputs.size() - 1;
    check_type("output", index, like.output_slots()[index], graph.meta(*next++), like.meta(output));
  }
  rewriter.graph().set_outputs(std::move(outputs), like.output_slots());
  rewriter.graph().set_name(like.name());
  return std::move(rewriter.graph());
}

}  // namespace diptych::detail
