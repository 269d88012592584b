#include "diptych/hops/replay.h"

#include <fmt/format.h>

#include "diptych/graph/rewrite.h"
#include "diptych/trace/recorder.h"
#include "diptych/trace/trace_guard.h"

namespace diptych::detail {
namespace {

using Tensors = std::vector<at::Tensor>;

Tensors run(const Program& program, Tensors inputs) {
  auto& recorder = *Recorder::current();
  const std::function<void(const Node&)> before = [&](const Node& node) { recorder.set_replayed(&node); };
  Tensors results = program.run(std::move(inputs), {.differentiable = true, .before = &before});
  recorder.set_replayed(nullptr);
  return results;
}

// The graph with its constants as further inputs.
Graph with_constants_as_inputs(const Graph& graph, std::vector<Value>& constants) {
  Rewriter rewriter(graph);
  rewriter.copy_inputs();
  const auto add = [&](Value value) {
    if (!value || rewriter.is_mapped(value) || graph.info(value).kind != ValueInfo::Kind::kConstant) return;
    constants.push_back(value);
    rewriter.add_input(value, {SlotKind::kArgument, fmt::format("constant.{}", constants.size())});
  };
  for (const Node& node : graph.nodes()) for_each_operand_value(node, add);
  for (const Value output : graph.outputs()) add(output);
  for (const Node& node : graph.nodes()) rewriter.copy_node(node);
  return rewriter.finish();
}

}  // namespace

Tensors replay(const Program& program, Tensors inputs) {
  const Graph& graph = program.graph();
  if (graph.constants().empty()) return run(program, std::move(inputs));
  std::vector<Value> constants;
  const Program of_inputs(with_constants_as_inputs(graph, constants));
  for (const Value value : constants) {
    at::Tensor literal;  // whose memory nobody else sees
    {
      const PauseTraceGuard real;
      const NoLevels plain;
      literal = graph.constants()[static_cast<size_t>(graph.info(value).index)].clone();
    }
    inputs.push_back(Recorder::current()->lift(literal));
  }
  return run(of_inputs, std::move(inputs));
}

}  // namespace diptych::detail
