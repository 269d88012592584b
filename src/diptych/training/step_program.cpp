#include "diptych/training/step_program.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "diptych/backends/builtin_backends.h"
#include "diptych/base/check.h"
#include "diptych/base/log.h"
#include "diptych/graph/print.h"
#include "diptych/graph/rewrite.h"
#include "diptych/passes/draw_first.h"
#include "diptych/passes/draw_on_device.h"
#include "diptych/xla/hlo/lower_body.h"
#include "diptych/xla/slot_tensor.h"

namespace diptych::detail {
namespace {

// Numbers of the nodes that XLA can't take. Errors: UserError names those that need what the step is given.
std::vector<size_t> find_host_nodes(const Graph& graph) {
  constexpr size_t kMost = 5;
  std::vector<size_t> nodes;
  std::vector<std::string> refused;
  std::vector<bool> needs_input(graph.num_values());
  for (const Value input : graph.inputs()) needs_input[input.id] = true;
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    const Node& node = graph.nodes()[i];
    bool any = false;
    for_each_operand_value(node, [&](Value value) { any = any || needs_input[value.id]; });
    for (const Value output : node.outputs) {
      if (output) needs_input[output.id] = any;
    }
    if (is_lowered(graph, node)) continue;
    nodes.push_back(i);
    if (any && refused.size() < kMost) refused.push_back(node_line(graph, node));
  }
  DIPTYCH_CHECK(
      refused.empty(),
      "[step] nodes of the step have no lowering to XLA, and a step on a device is one program: {}; leave them "
      "out, or use aot_function with backend 'xla', which runs them on the host, and the optimizer's own step",
      fmt::join(refused, "; "));
  return nodes;
}

// Splits a state's first dimension that is whole and that the axis's size divides.
void split_further(xla::Sharding& sharding, const xla::Mesh& mesh, const std::string& axis,
                   const std::vector<int64_t>& sizes) {
  if (axis.empty() || std::find(sharding.begin(), sharding.end(), axis) != sharding.end()) return;
  const int64_t parts = mesh.sizes[std::find(mesh.names.begin(), mesh.names.end(), axis) - mesh.names.begin()];
  for (size_t dim = 0; dim < sizes.size(); ++dim) {
    if (!sharding[dim].empty() || sizes[dim] == 0 || sizes[dim] % parts != 0) continue;
    sharding[dim] = axis;
    return;
  }
}

xla::Sharding sharding_of(const StepGraph& step, size_t input, const xla::DeviceStepOptions& options) {
  using Kind = StepInput::Kind;
  const StepInput& slot = step.inputs[input];
  const auto sizes = step.graph.meta(step.graph.inputs()[input]).size_hints();
  const bool is_ours = slot.kind == Kind::kNumbers || slot.kind == Kind::kLearningRates || slot.kind == Kind::kDrawn;
  if (is_ours) return xla::Sharding(sizes.size());
  // A state is split as its parameter, whose name follows the state's own.
  const bool is_state = slot.kind == Kind::kOptimizerState;
  const std::string name = is_state ? slot.name.substr(slot.name.find('.') + 1) : slot.name;
  auto sharding = xla::find_sharding(options.mesh, options.shardings, name, sizes);
  if (is_state) split_further(sharding, options.mesh, options.optimizer_axis, sizes);
  return sharding;
}

HloAttributes attributes_of(const StepGraph& step, const xla::DeviceStepOptions& options) {
  HloAttributes attributes;
  attributes.mesh = options.mesh;
  const bool is_split = !options.mesh.names.empty();
  for (size_t i = 0; is_split && i < step.inputs.size(); ++i)
    attributes.inputs.push_back(sharding_of(step, i, options));
  attributes.outputs.resize(is_split ? step.outputs.size() : 0);
  for (size_t i = 0; i < step.outputs.size(); ++i) {
    const auto& [kind, index] = step.outputs[i];
    if (kind != StepOutput::Kind::kNewValue) continue;
    attributes.donated.push_back({index, i});
    if (is_split) attributes.outputs[i] = attributes.inputs[index];
  }
  return attributes;
}

}  // namespace

StepProgram::StepProgram(StepGraph step, const xla::DeviceStepOptions& options,
                         std::shared_ptr<const PjrtClient> client)
    : step_(std::move(step)), mesh_(options.mesh), client_(std::move(client)) {
  if (draws_on_device(options.draws, "step")) step_.graph = draw_on_device(step_.graph);
  take_out_draws();
  step_.graph = in_lowered_operators(step_.graph);
  module_ = lower_graph(step_.graph, attributes_of(step_, options));
  log(Log::kGraphs, "xla: step '{}':\n{}", options.name, module_.text);
  program_ = std::make_unique<const ShardedProgram>(client_, module_, mesh_);
  module_.text.clear();
  for (const HloSlot& slot : module_.constants) constants_.push_back(send(step_.graph.constants()[slot.index], slot));
}

// What the host draws becomes inputs of the program, drawn before each run in eager's order.
void StepProgram::take_out_draws() {
  const Graph graph = draw_first(step_.graph);
  const auto nodes = find_host_nodes(graph);
  if (nodes.empty()) return;
  std::vector<Value> drawn, inputs = graph.inputs();
  std::vector<Slot> slots, input_slots = graph.input_slots();
  for (const size_t index : nodes) {
    for (const Value value : graph.nodes()[index].outputs) {
      if (!value) continue;
      slots.push_back({SlotKind::kOutput, fmt::format("draws.{}", drawn.size())});
      input_slots.push_back({SlotKind::kArgument, slots.back().path});
      step_.inputs.push_back({StepInput::Kind::kDrawn, drawn.size(), 0, slots.back().path});
      drawn.push_back(value);
      inputs.push_back(value);
    }
  }
  draws_ = std::make_unique<const Program>(extract(graph, "draws", {}, {}, drawn, std::move(slots), nodes));
  step_.graph = extract(graph, graph.name(), inputs, std::move(input_slots), graph.outputs(), graph.output_slots());
}

// The program runs on when its caller goes on, so nothing of the host's memory may be read in place.
StepProgram::Buffer StepProgram::send(const at::Tensor& tensor, const HloSlot& slot) const {
  return ShardedBuffer::copy_from(client_, as_passed(tensor, slot), mesh_, slot.sharding);
}

std::vector<StepProgram::Buffer> StepProgram::run(const Source& source) const {
  const auto drawn = draws_ == nullptr ? std::vector<at::Tensor>() : draws_->run({});
  std::vector<Buffer> arguments;
  for (const HloSlot& slot : module_.inputs) {
    const StepInput& input = step_.inputs[slot.index];
    if (input.kind == StepInput::Kind::kDrawn) {
      arguments.push_back(send(drawn[input.index], slot));
      continue;
    }
    arguments.push_back(source(input, {slot, [&](const at::Tensor& tensor) { return send(tensor, slot); }}));
  }
  arguments.insert(arguments.end(), constants_.begin(), constants_.end());
  auto results = program_->run(arguments);
  DIPTYCH_ASSERT(results.size() == step_.outputs.size(), "a step has {} outputs, its program {}", step_.outputs.size(),
                 results.size());
  return results;
}

}  // namespace diptych::detail
