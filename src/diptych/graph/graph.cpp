#include "diptych/graph/graph.h"

#include <atomic>

#include "diptych/base/check.h"

namespace diptych {

using namespace detail;

// Returns the content for writing; copies it first if copies of this graph share it, so that they do not see the
// change.
Graph::Content& Graph::change() {
  if (content_.use_count() > 1) {
    content_ = std::make_shared<Content>(*content_);
  } else {
    // Whatever another thread read before it released its copy happens before our writes.
    std::atomic_thread_fence(std::memory_order_acquire);
  }
  return *content_;
}

const ValueInfo& Graph::info(Value value) const {
  DIPTYCH_ASSERT(value.id >= 0 && static_cast<size_t>(value.id) < num_values(), "%{} is not a value of graph '{}'",
                 value.id, name_);
  return content_->values[value.id];
}

TensorMeta& Graph::mutable_meta(Value value) {
  DIPTYCH_ASSERT(value.id >= 0 && static_cast<size_t>(value.id) < num_values(), "%{} is not a value of graph '{}'",
                 value.id, name_);
  return change().values[value.id].meta;
}

void Graph::set_grad_enabled(Value value, bool enabled) {
  DIPTYCH_ASSERT(info(value).kind == ValueInfo::Kind::kNode, "%{} of graph '{}' is not made by a node", value.id,
                 name_);
  const auto node = static_cast<size_t>(info(value).node);
  if (nodes()[node].grad_enabled != enabled) change().nodes[node].grad_enabled = enabled;
}

void Graph::set_provenance(size_t node, const Provenance& provenance) {
  DIPTYCH_ASSERT(node < nodes().size(), "graph '{}' has no node {}", name_, node);
  change().nodes[node].provenance = provenance;
}

const Node* Graph::producer(Value value) const {
  const auto& known = info(value);
  return known.kind == ValueInfo::Kind::kNode ? &nodes()[known.node] : nullptr;
}

void Graph::reserve(size_t nodes) {
  Content& content = change();
  content.nodes.reserve(nodes);
  content.values.reserve(nodes + nodes / 2);
}

Value Graph::add_input(TensorMeta meta, Slot slot) {
  Content& content = change();
  const Value value{static_cast<int32_t>(content.values.size())};
  content.values.push_back({std::move(meta), -1, static_cast<int32_t>(content.inputs.size()), ValueInfo::Kind::kInput});
  content.inputs.push_back(value);
  content.input_slots.push_back(std::move(slot));
  return value;
}

Value Graph::add_constant(at::Tensor tensor) {
  Content& content = change();
  if (tensor.is_conj() || tensor.is_neg()) {
    const bool requires_grad = tensor.requires_grad();
    tensor = tensor.detach().resolve_conj().resolve_neg().set_requires_grad(requires_grad);
  }
  const Value value{static_cast<int32_t>(content.values.size())};
  content.values.push_back(
      {TensorMeta::of(tensor), -1, static_cast<int32_t>(content.constants.size()), ValueInfo::Kind::kConstant});
  content.constants.push_back(std::move(tensor));
  return value;
}

size_t Graph::add_node(Node node, std::vector<std::optional<TensorMeta>> metas) {
  Content& content = change();
  const auto index = static_cast<int32_t>(content.nodes.size());
  node.outputs.clear();
  for (size_t i = 0; i < metas.size(); ++i) {
    if (!metas[i]) {
      node.outputs.push_back(Value{});
      continue;
    }
    node.outputs.push_back(Value{static_cast<int32_t>(content.values.size())});
    content.values.push_back({std::move(*metas[i]), index, static_cast<int32_t>(i), ValueInfo::Kind::kNode});
  }
  content.nodes.push_back(std::move(node));
  return static_cast<size_t>(index);
}

void Graph::order_inputs(const std::vector<size_t>& order) {
  Content& content = change();
  DIPTYCH_ASSERT(order.size() == content.inputs.size(), "graph '{}' has {} inputs, got an order of {}", name_,
                 content.inputs.size(), order.size());
  std::vector<Value> inputs;
  std::vector<Slot> slots;
  for (const size_t position : order) {
    content.values[content.inputs.at(position).id].index = static_cast<int32_t>(inputs.size());
    inputs.push_back(content.inputs[position]);
    slots.push_back(std::move(content.input_slots[position]));
  }
  content.inputs = std::move(inputs);
  content.input_slots = std::move(slots);
}

void Graph::set_outputs(std::vector<Value> outputs, std::vector<Slot> slots) {
  DIPTYCH_ASSERT(outputs.size() == slots.size(), "graph '{}' got {} outputs and {} slots", name_, outputs.size(),
                 slots.size());
  Content& content = change();
  content.outputs = std::move(outputs);
  content.output_slots = std::move(slots);
}

void Graph::rename_slots(std::vector<Slot> inputs, std::vector<Slot> outputs) {
  Content& content = change();
  DIPTYCH_ASSERT(inputs.size() == content.inputs.size() && outputs.size() == content.outputs.size(),
                 "graph '{}' has {} inputs and {} outputs, got {} and {} slots", name_, content.inputs.size(),
                 content.outputs.size(), inputs.size(), outputs.size());
  content.input_slots = std::move(inputs);
  content.output_slots = std::move(outputs);
}

}  // namespace diptych
