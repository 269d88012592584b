#include "diptych/xla/export_graph.h"

#include <optional>

#include "diptych/base/check.h"
#include "diptych/graph/map_sizes.h"
#include "diptych/graph/names.h"
#include "diptych/graph/print.h"
#include "diptych/ops/tags.h"
#include "diptych/xla/hlo/lower_body.h"
#include "diptych/xla/hlo/lower_graph.h"

namespace diptych::detail {
namespace {

// What is wrong with a tensor, and what to change; nullopt if nothing is.
std::optional<std::string> fault_of(const TensorMeta& meta) {
  if (!has_hlo_type(meta.dtype)) {
    return fmt::format("{}, a dtype that StableHLO does not have; convert it in the function",
                       dtype_text(static_cast<int64_t>(meta.dtype)));
  }
  if (!meta.device.is_cpu()) return fmt::format("on {}; capture the function on CPU tensors", meta.device.str());
  for (const SizeExpr& size : meta.sizes) {
    if (!size.is_static()) {
      return fmt::format("{}, with dynamic sizes; capture the function without the option `dynamic`",
                         type_string(meta));
    }
  }
  return std::nullopt;
}

std::optional<std::string> fault_of_tensors(const Graph& graph, const Node& node) {
  std::optional<std::string> fault;
  const auto look = [&](Value value) {
    if (!fault) fault = fault_of(graph.meta(value));
    if (fault && fault->front() != '%') fault = fmt::format("%{} is {}", value.id, *fault);
  };
  for_each_operand_value(node, look);
  for (const Value value : node.outputs) {
    if (value) look(value);
  }
  return fault;
}

// Returns what keeps a node from being lowered, the innermost node first; nullopt if nothing does.
std::optional<std::string> fault_of(const Graph& graph, const Node& node) {
  if (is_lowered(graph, node) && !has_dynamic_sizes(node)) return std::nullopt;
  for (const auto& body : node.subgraphs) {
    for (const Node& inner : body->nodes()) {
      if (const auto fault = fault_of(*body, inner)) return fault;
    }
  }
  const std::string line = node_line(graph, node);
  if (const auto fault = fault_of_tensors(graph, node)) return fmt::format("`{}`: {}", line, *fault);
  if (has_dynamic_sizes(node)) {
    return fmt::format("`{}` has dynamic sizes; capture the function without the option `dynamic`", line);
  }
  if (draws_random(node)) {
    return fmt::format("`{}` draws random numbers; draw them outside and pass them in as an argument", line);
  }
  if (!node.subgraphs.empty()) {
    return fmt::format(
        "`{}` holds a tensor of several elements in its body, or a result that is absent; pass such a tensor in as an "
        "argument",
        line);
  }
  return fmt::format("`{}` has no lowering; compute it in other operators, or outside the function", line);
}

void check_tensors(const Graph& graph) {
  for (size_t i = 0; i < graph.inputs().size(); ++i) {
    const auto fault = fault_of(graph.meta(graph.inputs()[i]));
    DIPTYCH_CHECK(!fault, "[stablehlo] graph '{}': input '{}' is {}", graph.name(), graph.input_slots()[i].path,
                  *fault);
  }
  for (const at::Tensor& constant : graph.constants()) {
    DIPTYCH_CHECK(
        has_hlo_type(constant.scalar_type()) && constant.device().is_cpu(),
        "[stablehlo] graph '{}': a constant is {} on {}, expected a dtype of StableHLO on the CPU; convert it "
        "before the capture",
        graph.name(), dtype_text(static_cast<int64_t>(constant.scalar_type())), constant.device().str());
  }
}

// An input that the function changes may give its memory to its new value.
std::vector<HloAttributes::Donation> changed_in_place(const Graph& graph) {
  std::vector<HloAttributes::Donation> donated;
  for (size_t output = 0; output < graph.outputs().size(); ++output) {
    if (graph.output_slots()[output].kind != SlotKind::kMutated) continue;
    for (size_t input = 0; input < graph.inputs().size(); ++input) {
      if (graph.input_slots()[input].path == graph.output_slots()[output].path) donated.push_back({input, output});
    }
  }
  return donated;
}

}  // namespace

StableHloModule export_graph(const Graph& graph) {
  check_tensors(graph);
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    const auto fault = fault_of(graph, graph.nodes()[i]);
    DIPTYCH_CHECK(!fault, "[stablehlo] graph '{}': node {}, {}", graph.name(), i, *fault);
  }
  const Graph parts = in_lowered_operators(graph);
  HloModule module = lower_graph(parts, {.form = HloForm::kComplete, .donated = changed_in_place(parts)});
  StableHloModule exported{std::move(module.text), {}};
  for (const HloSlot& slot : module.constants) exported.constants.push_back(parts.constants()[slot.index]);
  return exported;
}

}  // namespace diptych::detail
