#include "diptych/passes/keep_outputs_apart.h"

#include <map>
#include <set>

#include "diptych/graph/rewrite.h"
#include "diptych/ops/tags.h"

namespace diptych {
namespace {

// Appends a clone of `value` to the graph that `rewriter` builds.
Value add_clone(Graph& graph, Value value, const char* origin) {
  static const Op clone = Op::find("aten.clone");
  Node node{clone, {value, c10::IValue()}, {}, {-1}, {}, {{}, InternedString(origin), {}, Phase::kForward}, true};
  const size_t index = graph.add_node(std::move(node), {graph.meta(value)});
  return graph.nodes()[index].outputs[0];
}

// The graph with the outputs at `positions` replaced by clones of them.
Graph clone_outputs(const Graph& source, const std::set<size_t>& positions, const char* origin) {
  if (positions.empty()) return source;
  Rewriter rewriter(source);
  rewriter.copy_inputs();
  for (const Node& node : source.nodes()) rewriter.copy_node(node);
  std::vector<Value> outputs;
  for (size_t i = 0; i < source.outputs().size(); ++i) {
    const Value value = rewriter[source.outputs()[i]];
    outputs.push_back(positions.count(i) != 0 ? add_clone(rewriter.graph(), value, origin) : value);
  }
  rewriter.graph().set_outputs(std::move(outputs), source.output_slots());
  return std::move(rewriter.graph());
}

// For each output, the first input or output whose storage it has: inputs count from 0, outputs follow.
std::vector<size_t> sharing(const Graph& graph) {
  std::map<Value, size_t> first;
  for (size_t i = 0; i < graph.inputs().size(); ++i) first.emplace(graph.inputs()[i], i);
  std::vector<size_t> result;
  for (size_t i = 0; i < graph.outputs().size(); ++i) {
    const Value output = graph.outputs()[i];
    const size_t own = graph.inputs().size() + i;
    const bool stands_apart = output && graph.output_slots()[i].kind == SlotKind::kOutput;
    result.push_back(stands_apart ? first.emplace(storage_root(graph, output), own).first->second : own);
  }
  return result;
}

}  // namespace

Value storage_root(const Graph& graph, Value value) {
  while (const Node* node = graph.producer(value)) {
    if (!has_tag(node->op, Tag::kView) || node->operands.empty()) break;
    const auto* self = std::get_if<Value>(&node->operands[0]);
    if (self == nullptr || !*self) break;
    value = *self;
  }
  return value;
}

Graph keep_outputs_apart(const Graph& graph, const Graph& original) {
  const auto now = sharing(graph);
  const auto before = sharing(original);
  std::set<size_t> positions;
  for (size_t i = 0; i < now.size(); ++i) {
    if (now[i] != before[i] && now[i] != graph.inputs().size() + i) positions.insert(i);
  }
  return clone_outputs(graph, positions, "keep_outputs_apart");
}

Graph keep_residuals_of_mutated_inputs(const Graph& forward, const std::vector<size_t>& mutated) {
  std::set<Value> roots;
  for (const size_t input : mutated) roots.insert(forward.inputs().at(input));
  std::set<size_t> positions;
  for (size_t i = 0; i < forward.outputs().size(); ++i) {
    const Value output = forward.outputs()[i];
    if (output && forward.output_slots()[i].kind == SlotKind::kResidual && roots.count(storage_root(forward, output)) != 0) {
      positions.insert(i);
    }
  }
  return clone_outputs(forward, positions, "keep_residuals_of_mutated_inputs");
}

}  // namespace diptych
