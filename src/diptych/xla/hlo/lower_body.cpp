#include "diptych/xla/hlo/lower_body.h"

#include <algorithm>
#include <set>
#include <string>

#include "diptych/base/check.h"
#include "diptych/graph/map_sizes.h"
#include "diptych/graph/print.h"
#include "diptych/graph/rewrite.h"
#include "diptych/ops/decompositions.h"
#include "diptych/passes/decompose.h"
#include "diptych/xla/hlo/lowering.h"
#include "diptych/xla/hlo/recomputation_barriers.h"

namespace diptych::detail {
namespace {

bool has_lowering(const Graph& graph, const Node& node) { return find_lowering(graph, node) != nullptr; }

// Returns one node as a graph of its own, for the sizes that it was traced with.
Graph graph_of_node(const Graph& graph, const Node& node) {
  std::vector<Value> inputs, outputs;
  for_each_operand_value(node, [&](Value value) {
    const bool is_new = std::find(inputs.begin(), inputs.end(), value) == inputs.end();
    if (is_new && graph.info(value).kind != ValueInfo::Kind::kConstant) inputs.push_back(value);
  });
  for (const Value value : node.outputs) {
    if (value) outputs.push_back(value);
  }
  const Graph extracted =
      extract(graph, "node", inputs, std::vector<Slot>(inputs.size()), outputs, std::vector<Slot>(outputs.size()));
  return instantiate(extracted, size_symbols(extracted));
}

// Whether all tensors of a node are on the CPU and of dtypes that programs have.
bool has_plain_types(const Graph& graph, const Node& node) {
  bool all = true;
  const auto look = [&](Value value) {
    const TensorMeta& meta = graph.meta(value);
    all = all && has_hlo_type(meta.dtype) && meta.device.is_cpu();
  };
  for_each_operand_value(node, look);
  for (const Value value : node.outputs) {
    if (value) look(value);
  }
  return all;
}

}  // namespace

bool are_lowered(const Graph& body) {
  // A constant would have to be written into the text; those of one element are.
  const bool has_small_constants = std::all_of(body.constants().begin(), body.constants().end(),
                                               [](const at::Tensor& constant) { return constant.numel() == 1; });
  return has_small_constants && std::all_of(body.nodes().begin(), body.nodes().end(),
                                            [&](const Node& node) { return is_lowered(body, node); });
}

bool is_lowered(const Graph& graph, const Node& node) {
  if (!has_plain_types(graph, node)) return false;
  if (has_lowering(graph, node)) {
    return std::all_of(node.subgraphs.begin(), node.subgraphs.end(),
                       [](const auto& body) { return are_lowered(*body); });
  }
  if (node.op.is_hop() || find_decomposition(node.op) == nullptr) return false;
  const Graph parts = in_lowered_operators(graph_of_node(graph, node));
  return std::all_of(parts.nodes().begin(), parts.nodes().end(),
                     [&](const Node& part) { return has_lowering(parts, part); });
}

Graph in_lowered_operators(const Graph& graph) { return decompose(graph, has_lowering); }

Graph in_lowered_operators_if_whole(const Graph& graph) {
  Graph parts = in_lowered_operators(graph);
  std::set<std::string> refused;
  for (const Node& node : parts.nodes()) {
    if (!is_lowered(parts, node)) refused.insert(node.op.name());
  }
  // What XLA does not take must have been there before.
  for (const Node& node : graph.nodes()) {
    if (!refused.empty() && !is_lowered(graph, node)) refused.erase(node.op.name());
  }
  return refused.empty() ? parts : graph;
}

std::vector<Hlo> lower_body(HloWriter& writer, const Graph& body, std::vector<Hlo> inputs) {
  const Graph graph = in_lowered_operators(body);
  std::vector<Hlo> values(graph.num_values());
  DIPTYCH_ASSERT(inputs.size() == graph.inputs().size(), "body '{}' got {} inputs", graph.name(), inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) values[graph.inputs()[i].id] = std::move(inputs[i]);
  for (size_t id = 0; id < values.size(); ++id) {
    const ValueInfo& info = graph.info(Value{static_cast<int32_t>(id)});
    if (info.kind != ValueInfo::Kind::kConstant) continue;
    const at::Tensor& constant = graph.constants()[info.index];
    values[id] = writer.constant(constant.item(), constant.scalar_type(), constant.sizes().vec());
  }
  RecomputationBarriers barriers(graph);
  for (size_t index = 0; index < graph.nodes().size(); ++index) barriers.lower(writer, index, values);
  std::vector<Hlo> outputs;
  for (const Value value : graph.outputs()) outputs.push_back(value ? values[value.id] : Hlo{});
  return outputs;
}

}  // namespace diptych::detail
