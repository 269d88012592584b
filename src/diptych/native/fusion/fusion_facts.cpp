#include "diptych/native/fusion/fusion_facts.h"

#include <algorithm>

#include "diptych/native/fusion/cost_model.h"
#include "diptych/native/fusion/single_node.h"
#include "diptych/native/lower/lower_group.h"
#include "diptych/ops/tags.h"

namespace diptych::detail {
namespace {

// Whether kernels can hold a value.
bool is_plain(const Graph& graph, Value value) { return graph.meta(value).device.is_cpu(); }

bool has_many_parts(const Node& node) {
  return std::any_of(node.operands.begin(), node.operands.end(), [](const Operand& operand) {
    const auto* parts = std::get_if<ValueList>(&operand);
    return parts != nullptr && parts->size() > kMostParts;
  });
}

bool has_plain_values(const Graph& graph, const Node& node) {
  bool all_plain = true;
  for_each_operand_value(node, [&](Value value) { all_plain = all_plain && is_plain(graph, value); });
  for (const Value output : node.outputs) all_plain = all_plain && output && is_plain(graph, output);
  return all_plain;
}

// A literal, so that asking costs next to nothing.
const char* find_obstacle(const Graph& graph, const Node& node) {
  if (node.op.is_hop()) return "a higher-order operator, whose bodies have kernels of their own";
  if (has_tag(node.op, Tag::kRandom)) return "draws random numbers";
  if (node.outputs.empty() || has_effect(node)) return "has an effect";
  if (has_many_parts(node)) return "joins too many tensors";
  if (!has_plain_values(graph, node)) return "has values that kernels can't hold";
  return is_lowered_to_kernels(graph, node) ? "" : "no operator of kernels";
}

// Whether some reduction of a kernel reads what another one made.
bool reduces_reductions(const Kernel& kernel) {
  std::vector<bool> is_reduced;
  for (const KernelValue& value : kernel.values) {
    bool any = false;
    for (const int32_t used : values_used(value)) any = any || is_reduced[used];
    const bool reduces = std::holds_alternative<KernelReduce>(value.made_by);
    if (any && reduces) return true;
    is_reduced.push_back(any || reduces);
  }
  return false;
}

NodeRole role_of(const Graph& graph, const Node& node) {
  if (*find_obstacle(graph, node) != '\0') return NodeRole::kOther;
  if (!has_tag(node.op, Tag::kSharesStorage)) return NodeRole::kComputes;
  const auto* base = std::get_if<Value>(&node.operands[0]);
  return base != nullptr && *base ? NodeRole::kViews : NodeRole::kOther;
}

}  // namespace

std::string why_no_kernel(const Graph& graph, const Node& node) { return find_obstacle(graph, node); }

FusionFacts::FusionFacts(const Graph& graph)
    : graph_(graph), readers_(graph.num_values()), is_output_(graph.num_values()), is_written_(graph.num_values()) {
  for (size_t id = 0; id < graph.num_values(); ++id) roots_.push_back(Value{static_cast<int32_t>(id)});
  sources_ = roots_;
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    const Node& node = graph.nodes()[i];
    roles_.push_back(role_of(graph, node));
    if (roles_[i] == NodeRole::kViews) {
      const Value base = std::get<Value>(node.operands[0]);
      const bool is_plain = !has_tag(node.op, Tag::kLazyView) && source(base) == base;
      for (const Value output : node.outputs) {
        roots_[output.id] = root(base);
        if (!is_plain) sources_[output.id] = source(base);
      }
      continue;
    }
    for_each_operand_value(node, [&](Value value) {
      auto& readers = readers_[root(value).id];
      if (readers.empty() || readers.back() != i) readers.push_back(i);
      if (has_tag(node.op, Tag::kMutating)) is_written_[root(value).id] = true;
    });
  }
  for (const Value output : graph.outputs()) {
    if (output) is_output_[root(output).id] = true;
  }
}

bool FusionFacts::is_number(Value value) const {
  const ValueInfo& info = graph_.info(value);
  return info.kind == ValueInfo::Kind::kConstant && !is_written_[value.id] && info.meta.numel() == 1;
}

bool FusionFacts::goes_twice(size_t node) const {
  const Node& reduction = graph_.nodes()[node];
  const auto [entry, is_new] = goes_twice_.emplace(reduction.op.name(), false);
  if (is_new) {
    const auto kernel = lower_group(graph_of_one(graph_, reduction));
    entry->second = kernel && reduces_reductions(*kernel);
  }
  return entry->second;
}

}  // namespace diptych::detail
