#include "diptych/compile/second_order.h"

#include "diptych/autodiff/generator_states.h"
#include "diptych/base/check.h"
#include "diptych/graph/rewrite.h"
#include "diptych/interpreter/run_guards.h"
#include "diptych/ops/tags.h"
#include "diptych/trace/memory_order.h"

namespace diptych::detail {

at::Tensor laid_out(const at::Tensor& tangent, const std::vector<int64_t>& strides) {
  if (tangent.strides() == c10::IntArrayRef(strides)) return tangent;
  return detail::in_order(tangent, detail::MemoryOrder(strides));
}

namespace {

std::vector<Slot> numbered_slots(SlotKind kind, const char* name, size_t count) {
  std::vector<Slot> slots;
  for (size_t i = 0; i < count; ++i) slots.push_back({kind, fmt::format("{}.{}", name, i)});
  return slots;
}

}  // namespace

std::vector<Value> random_values(const Graph& graph, const std::vector<Value>& outputs) {
  std::vector<bool> needed(graph.num_values());
  for (const Value output : outputs) needed[output.id] = true;
  std::vector<Value> found;
  for (size_t i = graph.nodes().size(); i-- > 0;) {
    const Node& node = graph.nodes()[i];
    const bool is_needed = std::any_of(node.outputs.begin(), node.outputs.end(),
                                       [&](Value output) { return output && needed[output.id]; });
    if (!is_needed) continue;
    for_each_operand_value(node, [&](Value value) { needed[value.id] = true; });
    if (!draws_random(node)) continue;
    // A sampler's result has no gradient; neither do the results of a higher-order operator that only draws.
    const bool only_draws =
        node.outputs.size() == 1 ||
        (node.op.is_hop() && std::none_of(node.outputs.begin(), node.outputs.end(),
                                          [&](Value output) { return output && graph.meta(output).requires_grad; }));
    DIPTYCH_CHECK(only_draws,
                  "[second order] {} draws random numbers and computes with them in one operator, so its gradient "
                  "can't be differentiated again; draw a mask with bernoulli and multiply instead",
                  node.op.name());
    for (const Value output : node.outputs) {
      if (output) found.push_back(output);
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

SecondOrder::SecondOrder(const Joint& joint, const std::vector<bool>& defined, const std::vector<Value>& starts,
                         size_t num_primals, Starts kinds, const AotOptions& options)
    : starts_(std::move(kinds)), num_primals_(num_primals) {
  const Graph& graph = joint.graph;
  const size_t first_gradient = joint.layout.num_forward_outputs();
  std::vector<Value> outputs;
  for (size_t i = 0; i < joint.layout.num_gradients(); ++i) {
    const Value gradient = graph.outputs()[first_gradient + i];
    output_of_gradient_.push_back(gradient ? std::optional(outputs.size()) : std::nullopt);
    if (gradient) outputs.push_back(gradient);
  }
  if (outputs.empty()) return;
  const auto random = random_values(graph, outputs);
  std::vector<Value> inputs(starts.begin(), starts.begin() + static_cast<std::ptrdiff_t>(num_primals));
  if (!random.empty()) {
    draws_ = std::make_shared<Program>(
        extract(graph, "draws", inputs, numbered_slots(SlotKind::kArgument, "primal", inputs.size()), random,
                numbered_slots(SlotKind::kOutput, "draw", random.size()), random_nodes(graph)));
  }
  inputs = starts;
  inputs.insert(inputs.end(), random.begin(), random.end());
  for (size_t i = 0; i < joint.layout.num_tangents; ++i) {
    if (!defined[i]) continue;
    inputs.push_back(graph.inputs()[joint.layout.num_primals() + i]);
    tangent_strides_.push_back(graph.meta(inputs.back()).stride_hints());
  }
  const Graph extracted =
      extract(graph, "gradients", inputs, numbered_slots(SlotKind::kArgument, "input", inputs.size()), outputs,
              numbered_slots(SlotKind::kOutput, "gradient", outputs.size()));
  gradients_ = std::make_shared<Program>(extracted);
  AotOptions nested = options;
  nested.name += ".backward";
  std::vector<std::string> paths;
  for (const auto& slot : gradients_->graph().input_slots()) paths.push_back(slot.path);
  const auto run = [program = gradients_](const std::vector<at::Tensor>& given) {
    FlatResult result;
    result.tensors = program->run(std::vector<at::Tensor>(given), {.differentiable = true});
    for (const auto& slot : program->graph().output_slots()) result.paths.push_back(slot.path);
    return result;
  };
  aot_ = std::make_unique<FlatAot>(run, paths, nested);
}

SecondOrder::SecondOrder(std::unique_ptr<const Derivatives> derivatives, Starts kinds)
    : starts_(std::move(kinds)), derivatives_(std::move(derivatives)) {}

std::vector<at::Tensor> SecondOrder::draw_again(const std::vector<at::Tensor>& primals,
                                                const std::vector<at::Tensor>& generator_states) const {
  const RunBelowAutograd guard;
  const Rewind rewind(generators_of(draws_->graph()), generator_states);
  return draws_->run(std::vector<at::Tensor>(primals));
}

std::vector<at::Tensor> SecondOrder::gradients(const std::vector<at::Tensor>& starts,
                                               const std::vector<at::Tensor>& tangents,
                                               const std::vector<at::Tensor>& generator_states) {
  if (derivatives_) return derivatives_->gradients(starts, tangents, generator_states);
  if (!aot_) return std::vector<at::Tensor>(output_of_gradient_.size());
  std::vector<at::Tensor> inputs = starts;
  if (draws_) {
    const std::vector<at::Tensor> primals(starts.begin(), starts.begin() + static_cast<std::ptrdiff_t>(num_primals_));
    for (at::Tensor& draw : draw_again(primals, generator_states)) inputs.push_back(std::move(draw));
  }
  size_t next = 0;
  for (const at::Tensor& tangent : tangents) {
    if (tangent.defined()) inputs.push_back(laid_out(tangent, tangent_strides_[next++]));
  }
  const auto found = aot_->call(inputs);
  std::vector<at::Tensor> gradients;
  for (const auto& output : output_of_gradient_) gradients.push_back(output ? found[*output] : at::Tensor());
  return gradients;
}

}  // namespace diptych::detail
