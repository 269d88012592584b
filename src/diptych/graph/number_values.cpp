#include "diptych/graph/number_values.h"

#include <algorithm>
#include <numeric>

#include "diptych/base/check.h"

namespace diptych::detail {

void NumberedGraph::add_input(int32_t number, TensorMeta meta, Slot slot) {
  inputs_.push_back({number, std::move(meta), std::move(slot)});
}

bool NumberedGraph::define(int32_t number) {
  if (number <= last_defined_) return false;
  last_defined_ = number;
  return true;
}

void NumberedGraph::add_constant(int32_t number, at::Tensor tensor, TensorMeta meta) {
  ParsedNode result;
  result.numbers.push_back(number);
  steps_.push_back({std::move(result), std::move(tensor), std::move(meta)});
}

// Numbers need not be dense ("%2000000000" is a fine name), so the map is a sorted list and not an array.
void NumberedGraph::map(int32_t number, Value value) {
  const std::pair<int32_t, Value> entry{number, value};
  if (map_.empty() || map_.back().first < number) {
    map_.push_back(entry);
  } else {
    map_.insert(std::lower_bound(map_.begin(), map_.end(), entry), entry);
  }
}

Value NumberedGraph::mapped(int32_t number) const {
  if (number < 0) return Value{};
  const auto found = std::lower_bound(map_.begin(), map_.end(), std::pair<int32_t, Value>{number, Value{}});
  DIPTYCH_ASSERT(found != map_.end() && found->first == number, "%{} is used before it is defined", number);
  return found->second;
}

void NumberedGraph::add_inputs_below(int64_t number) {
  for (; next_input_ < inputs_.size() && inputs_[input_order_[next_input_]].number < number; ++next_input_) {
    auto& input = inputs_[input_order_[next_input_]];
    map(input.number, graph_.add_input(std::move(input.meta), std::move(input.slot)));
  }
}

// Inputs were added in the order of their numbers; puts them back into the order in which they were listed.
void NumberedGraph::restore_input_order() {
  std::vector<size_t> position(inputs_.size());
  for (size_t i = 0; i < input_order_.size(); ++i) position[input_order_[i]] = i;
  graph_.order_inputs(position);
}

// The value that a `grad of` names may be defined later than the node, so its new number is found before anything is
// built: it is the rank of the old one.
void NumberedGraph::patch_grad_of() {
  std::vector<int32_t> numbers;
  std::vector<Step*> nodes;
  for (auto& step : steps_) {
    for (const int32_t number : step.node.numbers) {
      if (number >= 0) numbers.push_back(number);
    }
    if (step.node.node) nodes.push_back(&step);
  }
  for (const auto& input : inputs_) numbers.push_back(input.number);
  std::sort(numbers.begin(), numbers.end());
  for (const auto& [node, number, place] : grad_of) {
    const auto rank = std::lower_bound(numbers.begin(), numbers.end(), number) - numbers.begin();
    nodes[node]->node.node->provenance.grad_of = Value{static_cast<int32_t>(rank)};
  }
}

void NumberedGraph::renumber(Node& node) const {
  for (auto& operand : node.operands) {
    if (auto* value = std::get_if<Value>(&operand)) {
      *value = mapped(value->id);
    } else if (auto* list = std::get_if<ValueList>(&operand)) {
      for (auto& element : *list) element = mapped(element.id);
    }
  }
}

void NumberedGraph::build_step(Step& step) {
  auto& numbers = step.node.numbers;
  const auto first = std::find_if(numbers.begin(), numbers.end(), [](int32_t number) { return number >= 0; });
  if (first != numbers.end()) add_inputs_below(*first);
  if (step.constant.defined()) {
    const Value value = graph_.add_constant(std::move(step.constant));
    graph_.mutable_meta(value) = std::move(step.constant_meta);
    map(numbers[0], value);
    return;
  }
  Node& node = *step.node.node;
  for_each_operand_value(node, [&](Value value) { add_inputs_below(static_cast<int64_t>(value.id) + 1); });
  renumber(node);
  const size_t index = graph_.add_node(std::move(node), std::move(step.node.metas));
  const auto& outputs = graph_.nodes()[index].outputs;
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (numbers[i] >= 0) map(numbers[i], outputs[i]);
  }
}

Graph NumberedGraph::build() {
  graph_.set_name(name);
  input_order_.resize(inputs_.size());
  std::iota(input_order_.begin(), input_order_.end(), size_t{0});
  std::sort(input_order_.begin(), input_order_.end(),
            [this](size_t a, size_t b) { return inputs_[a].number < inputs_[b].number; });
  patch_grad_of();
  for (auto& step : steps_) build_step(step);
  add_inputs_below(INT64_MAX);
  restore_input_order();
  std::vector<Value> values;
  for (const int32_t number : outputs) values.push_back(mapped(number));
  graph_.set_outputs(std::move(values), std::move(output_slots));
  return std::move(graph_);
}

}  // namespace diptych::detail
