#include "diptych/graph/rewrite.h"

#include "diptych/base/check.h"

namespace diptych::detail {

Rewriter::Rewriter(const Graph& source) : source_(source), graph_(source.name()), map_(source.num_values()) {
  graph_.reserve(source.nodes().size());
}

Rewriter::Rewriter(const Graph& source, Graph target)
    : source_(source), graph_(std::move(target)), map_(source.num_values()) {}

Value Rewriter::add_input(Value old, Slot slot) {
  const Value added = graph_.add_input(source_.meta(old), std::move(slot));
  map(old, added);
  return added;
}

void Rewriter::copy_inputs() {
  for (size_t i = 0; i < source_.inputs().size(); ++i) add_input(source_.inputs()[i], source_.input_slots()[i]);
}

void Rewriter::copy_node(const Node& node) {
  Node copy{node.op, map_operands(node), {}, node.returns, node.subgraphs, node.provenance, node.grad_enabled};
  // The new graph can't name a forward value that it does not hold.
  const Value grad_of = node.provenance.grad_of;
  copy.provenance.grad_of = grad_of && is_mapped(grad_of) ? map_[grad_of.id] : Value{};
  std::vector<std::optional<TensorMeta>> metas;
  metas.reserve(node.outputs.size());
  for (const Value output : node.outputs) {
    metas.push_back(output ? std::optional(source_.meta(output)) : std::nullopt);
  }
  const size_t index = graph_.add_node(std::move(copy), std::move(metas));
  const auto& added = graph_.nodes()[index];
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i]) map(node.outputs[i], added.outputs[i]);
  }
}

void Rewriter::map(Value old, Value replacement) { map_.at(old.id) = replacement; }

bool Rewriter::is_mapped(Value old) const { return static_cast<bool>(map_.at(old.id)); }

Value Rewriter::operator[](Value old) {
  if (!old) return old;
  if (!is_mapped(old)) {
    const auto& info = source_.info(old);
    DIPTYCH_ASSERT(info.kind == ValueInfo::Kind::kConstant, "%{} of graph '{}' is used before it is made", old.id,
                   source_.name());
    map(old, graph_.add_constant(source_.constants()[info.index]));
  }
  return map_[old.id];
}

c10::SmallVector<Operand, 4> Rewriter::map_operands(const Node& node) {
  c10::SmallVector<Operand, 4> operands(node.operands.begin(), node.operands.end());
  for (auto& operand : operands) {
    if (auto* value = std::get_if<Value>(&operand)) {
      *value = (*this)[*value];
    } else if (auto* list = std::get_if<ValueList>(&operand)) {
      for (auto& element : *list) element = (*this)[element];
    }
  }
  return operands;
}

Graph Rewriter::finish() {
  std::vector<Value> outputs;
  for (const Value output : source_.outputs()) outputs.push_back((*this)[output]);
  graph_.set_outputs(std::move(outputs), source_.output_slots());
  return std::move(graph_);
}

namespace {

// Marks the nodes that the outputs need, walking back no further than the given inputs.
std::vector<bool> needed_nodes(const Graph& source, const std::vector<Value>& inputs, const std::vector<Value>& outputs,
                               const std::vector<size_t>& also_keep) {
  std::vector<bool> is_input(source.num_values());
  for (const Value input : inputs) is_input[input.id] = true;
  std::vector<bool> needed_value(source.num_values());
  for (const Value output : outputs) {
    if (output) needed_value[output.id] = true;
  }
  std::vector<bool> needed(source.nodes().size());
  for (const size_t index : also_keep) needed.at(index) = true;
  for (size_t i = source.nodes().size(); i-- > 0;) {
    const Node& node = source.nodes()[i];
    for (const Value output : node.outputs) {
      if (output && needed_value[output.id] && !is_input[output.id]) needed[i] = true;
    }
    if (needed[i]) for_each_operand_value(node, [&](Value value) { needed_value[value.id] = true; });
  }
  return needed;
}

}  // namespace

Graph renumber(const Graph& source) {
  Rewriter rewriter(source);
  rewriter.copy_inputs();
  for (const Node& node : source.nodes()) rewriter.copy_node(node);
  return rewriter.finish();
}

Graph extract(const Graph& source, std::string name, const std::vector<Value>& inputs, std::vector<Slot> input_slots,
              const std::vector<Value>& outputs, std::vector<Slot> output_slots, const std::vector<size_t>& also_keep) {
  DIPTYCH_ASSERT(inputs.size() == input_slots.size(), "extract '{}' got {} inputs and {} slots", name, inputs.size(),
                 input_slots.size());
  const auto needed = needed_nodes(source, inputs, outputs, also_keep);
  std::vector<bool> is_input(source.num_values());
  Rewriter rewriter(source);
  rewriter.graph().set_name(std::move(name));
  for (size_t i = 0; i < inputs.size(); ++i) {
    rewriter.add_input(inputs[i], std::move(input_slots[i]));
    is_input[inputs[i].id] = true;
  }
  for (size_t i = 0; i < source.nodes().size(); ++i) {
    const Node& node = source.nodes()[i];
    if (!needed[i]) continue;
    std::vector<std::pair<Value, Value>> given;  // outputs of this node that are inputs stay the inputs
    for (const Value output : node.outputs) {
      if (output && is_input[output.id]) given.emplace_back(output, rewriter[output]);
    }
    rewriter.copy_node(node);
    for (const auto& [old, input] : given) rewriter.map(old, input);
  }
  std::vector<Value> mapped;
  for (const Value output : outputs) mapped.push_back(rewriter[output]);
  rewriter.graph().set_outputs(std::move(mapped), std::move(output_slots));
  return std::move(rewriter.graph());
}

}  // namespace diptych::detail
