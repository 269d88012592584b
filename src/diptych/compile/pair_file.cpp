#include "diptych/compile/pair_file.h"

#include <algorithm>

#include "diptych/base/error.h"
#include "diptych/compile/output_aliases.h"
#include "diptych/graph/serialize.h"
#include "diptych/graph/verify.h"
#include "diptych/hops/builtin_hops.h"

namespace diptych {
namespace {

size_t count(const std::vector<Slot>& slots, SlotKind kind) {
  return static_cast<size_t>(
      std::count_if(slots.begin(), slots.end(), [kind](const Slot& slot) { return slot.kind == kind; }));
}

JointLayout layout_of(const Graph& forward, const Graph& backward) {
  return {.num_arguments = count(forward.input_slots(), SlotKind::kArgument),
          .num_free_variables = count(forward.input_slots(), SlotKind::kFreeVariable),
          .num_tangents = count(backward.input_slots(), SlotKind::kTangent),
          .num_outputs = count(forward.output_slots(), SlotKind::kOutput),
          .num_mutated = count(forward.output_slots(), SlotKind::kMutated)};
}

// The free variables stand in the file as a graph of constants.
Graph graph_of(const std::vector<at::Tensor>& tensors) {
  Graph graph("free_variables");
  std::vector<Value> outputs;
  std::vector<Slot> slots;
  for (size_t i = 0; i < tensors.size(); ++i) {
    outputs.push_back(graph.add_constant(tensors[i].detach()));
    slots.push_back({SlotKind::kOutput, fmt::format("free.{}", i)});
  }
  graph.set_outputs(std::move(outputs), std::move(slots));
  return graph;
}

}  // namespace

Pair make_pair(Graph forward, Graph backward, std::vector<at::Tensor> free_variables) {
  Pair pair;
  try {
    verify(forward);
    verify(backward);
    pair.signature =
        Signature(forward, backward, detail::find_aliases(forward, count(forward.output_slots(), SlotKind::kOutput)));
  } catch (const InternalError& error) {
    throw UserError(
        fmt::format("[make_pair] the graphs are no pair: {}; pass a forward and its backward", error.what()));
  }
  const JointLayout layout = layout_of(forward, backward);
  DIPTYCH_CHECK(free_variables.size() == layout.num_free_variables,
                "[make_pair] got {} free variables, expected {}, one for each slot of that kind", free_variables.size(),
                layout.num_free_variables);
  pair.split = {forward, backward, layout, {}};
  pair.split.saved.assign(forward.outputs().begin() + static_cast<std::ptrdiff_t>(layout.num_forward_outputs()),
                          forward.outputs().end());
  pair.forward_program = std::make_shared<Program>(forward);
  pair.backward_program = std::make_shared<Program>(backward);
  pair.forward = std::move(forward);
  pair.backward = std::move(backward);
  pair.free_variables = std::move(free_variables);
  return pair;
}

void save(const Pair& pair, const std::string& path) {
  save(
      GraphFile{
          {{"forward", pair.forward}, {"backward", pair.backward}, {"free_variables", graph_of(pair.free_variables)}},
          {{"kind", "pair"}}},
      path);
}

Pair load_pair(const std::string& path) {
  const GraphFile file = load(path, find_hop);
  const auto kind = file.metadata.find("kind");
  DIPTYCH_CHECK(kind != file.metadata.end() && kind->second == "pair",
                "[load_pair] '{}' holds graphs that are no pair; read it with load()", path);
  const Graph& constants = file.graph("free_variables");
  std::vector<at::Tensor> free_variables;
  for (const Value value : constants.outputs()) {
    free_variables.push_back(constants.constants()[constants.info(value).index]);
  }
  return make_pair(file.graph("forward"), file.graph("backward"), std::move(free_variables));
}

}  // namespace diptych
