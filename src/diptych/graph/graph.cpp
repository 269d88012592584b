#include "diptych/graph/graph.h"

#include "diptych/base/error.h"

namespace diptych {

const ValueInfo& Graph::info(Value value) const {
  DIPTYCH_ASSERT(value.id >= 0 && static_cast<size_t>(value.id) < values_.size(), "%{} is not a value of graph '{}'",
                 value.id, name_);
  return values_[value.id];
}

TensorMeta& Graph::mutable_meta(Value value) { return const_cast<ValueInfo&>(info(value)).meta; }

void Graph::set_grad_enabled(Value value, bool enabled) {
  DIPTYCH_ASSERT(info(value).kind == ValueInfo::Kind::kNode, "%{} of graph '{}' is made by no node", value.id, name_);
  nodes_[info(value).node].grad_enabled = enabled;
}

const Node* Graph::producer(Value value) const {
  const auto& known = info(value);
  return known.kind == ValueInfo::Kind::kNode ? &nodes_[known.node] : nullptr;
}

void Graph::reserve(size_t nodes) {
  nodes_.reserve(nodes);
  values_.reserve(nodes + nodes / 2);
}

Value Graph::add_input(TensorMeta meta, Slot slot) {
  const Value value{static_cast<int32_t>(values_.size())};
  values_.push_back({std::move(meta), -1, static_cast<int32_t>(inputs_.size()), ValueInfo::Kind::kInput});
  inputs_.push_back(value);
  input_slots_.push_back(std::move(slot));
  return value;
}

Value Graph::add_constant(at::Tensor tensor) {
  const Value value{static_cast<int32_t>(values_.size())};
  values_.push_back({TensorMeta::of(tensor), -1, static_cast<int32_t>(constants_.size()), ValueInfo::Kind::kConstant});
  constants_.push_back(std::move(tensor));
  return value;
}

size_t Graph::add_node(Node node, std::vector<std::optional<TensorMeta>> metas) {
  const auto index = static_cast<int32_t>(nodes_.size());
  node.outputs.clear();
  for (size_t i = 0; i < metas.size(); ++i) {
    if (!metas[i]) {
      node.outputs.push_back(Value{});
      continue;
    }
    node.outputs.push_back(Value{static_cast<int32_t>(values_.size())});
    values_.push_back({std::move(*metas[i]), index, static_cast<int32_t>(i), ValueInfo::Kind::kNode});
  }
  nodes_.push_back(std::move(node));
  return static_cast<size_t>(index);
}

void Graph::order_inputs(const std::vector<size_t>& order) {
  DIPTYCH_ASSERT(order.size() == inputs_.size(), "graph '{}' has {} inputs, got an order of {}", name_, inputs_.size(),
                 order.size());
  std::vector<Value> inputs;
  std::vector<Slot> slots;
  for (const size_t position : order) {
    values_[inputs_.at(position).id].index = static_cast<int32_t>(inputs.size());
    inputs.push_back(inputs_[position]);
    slots.push_back(std::move(input_slots_[position]));
  }
  inputs_ = std::move(inputs);
  input_slots_ = std::move(slots);
}

void Graph::set_outputs(std::vector<Value> outputs, std::vector<Slot> slots) {
  DIPTYCH_ASSERT(outputs.size() == slots.size(), "graph '{}' got {} outputs and {} slots", name_, outputs.size(),
                 slots.size());
  outputs_ = std::move(outputs);
  output_slots_ = std::move(slots);
}

void Graph::rename_slots(std::vector<Slot> inputs, std::vector<Slot> outputs) {
  DIPTYCH_ASSERT(inputs.size() == inputs_.size() && outputs.size() == outputs_.size(),
                 "graph '{}' has {} inputs and {} outputs, got {} and {} slots", name_, inputs_.size(), outputs_.size(),
                 inputs.size(), outputs.size());
  input_slots_ = std::move(inputs);
  output_slots_ = std::move(outputs);
}

}  // namespace diptych
