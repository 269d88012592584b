#include "diptych/hops/graph_edit.h"

#include "diptych/graph/rewrite.h"
#include "diptych/passes/simplify.h"

namespace diptych::detail {

const Node& BackwardEmitter::like() {
  static const auto* const node = [] {
    auto* made = new Node{Op::find("aten.add.Tensor"), {}, {}, {}, {}, {}};
    made->provenance.phase = Phase::kBackward;
    return made;
  }();
  return *node;
}

Value add_filler(Graph& graph, const TensorMeta& meta, Filler filler) {
  BackwardEmitter emitter(graph);
  const c10::IValue sizes(meta.size_hints());
  const c10::IValue dtype(meta.dtype);
  const c10::IValue device(meta.device);
  if (filler == Filler::kZeros) return emitter.call("aten.zeros", {sizes, dtype, c10::IValue(), device, c10::IValue()});
  return emitter.call("aten.empty_strided",
                      {sizes, c10::IValue(meta.stride_hints()), dtype, c10::IValue(), device, c10::IValue()});
}

Graph insert_inputs(const Graph& graph, size_t position, const std::vector<TensorMeta>& metas) {
  Rewriter rewriter(graph);
  for (size_t i = 0; i <= graph.inputs().size(); ++i) {
    if (i == position) {
      for (const TensorMeta& meta : metas) rewriter.graph().add_input(meta, {SlotKind::kArgument, "unused"});
    }
    if (i < graph.inputs().size()) rewriter.add_input(graph.inputs()[i], graph.input_slots()[i]);
  }
  for (const Node& node : graph.nodes()) rewriter.copy_node(node);
  return rewriter.finish();
}

Graph insert_outputs(const Graph& graph, size_t position, const std::vector<TensorMeta>& metas, Filler filler) {
  Graph wider = graph;
  std::vector<Value> outputs = graph.outputs();
  std::vector<Slot> slots = graph.output_slots();
  std::vector<Value> fillers;
  for (const TensorMeta& meta : metas) fillers.push_back(add_filler(wider, meta, filler));
  const auto place = static_cast<int64_t>(position);
  outputs.insert(outputs.begin() + place, fillers.begin(), fillers.end());
  slots.insert(slots.begin() + place, fillers.size(), Slot{SlotKind::kResidual, "filler"});
  wider.set_outputs(std::move(outputs), std::move(slots));
  return wider;
}

}  // namespace diptych::detail
