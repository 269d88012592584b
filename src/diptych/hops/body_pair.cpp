#include "diptych/hops/body_pair.h"

#include <map>

#include "diptych/scan_passes/pipeline.h"

namespace diptych::detail {

void mark_own_derivative(Graph& graph, const ForwardPlan& plan) {
  if (!plan.rewrites_history && !plan.has_custom_function && !plan.has_hook) return;
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    Provenance provenance = graph.nodes()[i].provenance;
    provenance.own_derivative = true;
    graph.set_provenance(i, provenance);
  }
}

BodyPair::BodyPair(std::shared_ptr<SharedCapture> capture, size_t num_results, size_t num_carries, bool create_graph,
                   const Partitioner& partitioner)
    : capture_(std::move(capture)), num_results_(num_results), create_graph_(create_graph) {
  differentiable_.resize(num_results);
  for (const size_t slot : capture_->capture.plan().differentiable) {
    if (slot < num_results) differentiable_[slot] = true;
  }
  joint_ = trace_joint(differentiable_);
  split_ = split_joint(joint_, partitioner);
  std::map<Value, size_t> input_of;
  for (size_t i = num_carries; i < joint_.layout.num_primals(); ++i) input_of.emplace(joint_.graph.inputs()[i], i);
  Graph forward = split_.forward;
  const size_t first_residual = joint_.layout.num_forward_outputs();
  std::vector<Value> outputs(forward.outputs().begin(), forward.outputs().begin() + static_cast<int64_t>(num_results));
  std::vector<Slot> slots(forward.output_slots().begin(),
                          forward.output_slots().begin() + static_cast<int64_t>(num_results));
  for (size_t i = 0; i < split_.saved.size(); ++i) {
    if (const auto found = input_of.find(split_.saved[i]); found != input_of.end()) {
      residuals_.push_back({true, found->second});
      continue;
    }
    residuals_.push_back({false, outputs.size()});
    outputs.push_back(forward.outputs()[first_residual + i]);
    slots.push_back({SlotKind::kResidual, forward.output_slots()[first_residual + i].path});
  }
  forward.set_outputs(std::move(outputs), std::move(slots));
  forward.set_name("forward");
  mark_own_derivative(forward, capture_->capture.plan());
  forward_ = std::make_shared<const Graph>(
      lower(Stage::kBody, std::move(forward), {.simplify = {.keep_gradient_stops = true}}));
}

// The capture's tangents are those of the differentiable results, and of mutated inputs, which come last.
std::vector<bool> BodyPair::tangents_of(const std::vector<bool>& given) const {
  std::vector<bool> tangents;
  for (const size_t slot : capture_->capture.plan().differentiable) {
    tangents.push_back(slot < num_results_ && given[slot]);
  }
  return tangents;
}

Joint BodyPair::trace_joint(const std::vector<bool>& given) const {
  const std::lock_guard lock(capture_->mutex);
  return capture_->capture.joint(tangents_of(given), create_graph_);
}

std::vector<bool> BodyPair::reached(const std::vector<bool>& given) const {
  const Graph& graph = joint_.graph;
  std::vector<bool> marked(graph.num_values());
  size_t tangent = joint_.layout.num_primals();
  for (const bool is_given : tangents_of(given)) marked[graph.inputs()[tangent++].id] = is_given;
  for (const Node& node : graph.nodes()) {
    bool reads = false;
    for_each_operand_value(node, [&](Value value) { reads = reads || marked[value.id]; });
    if (!reads) continue;
    for (const Value output : node.outputs) {
      if (output) marked[output.id] = true;
    }
  }
  std::vector<bool> found;
  for (size_t i = 0; i < joint_.layout.num_primals(); ++i) {
    const Value gradient = graph.outputs()[joint_.layout.num_forward_outputs() + i];
    found.push_back(gradient && marked[gradient.id]);
  }
  return found;
}

Graph BodyPair::backward(const std::vector<bool>& given) const {
  Graph backward = given == differentiable_ ? split_.backward : split_backward(trace_joint(given), split_.saved);
  backward.set_name("backward");
  return lower(Stage::kBody, std::move(backward), {.simplify = {.keep_gradient_stops = true}});
}

}  // namespace diptych::detail
