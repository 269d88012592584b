#include "diptych/scan_passes/body_flow.h"

#include "diptych/ops/tags.h"

namespace diptych::detail {

BodyFlow::BodyFlow(const ScanEdit& edit)
    : body_(edit.body()),
      varies_(body_.num_values()),
      sequential_(body_.num_values()),
      slice_(body_.num_values()),
      readers_(body_.num_values()) {
  for (const auto& carry : edit.carries) varies_[carry.in.id] = sequential_[carry.in.id] = true;
  for (const auto& slice : edit.slices) {
    varies_[slice.in.id] = slice_[slice.in.id] = true;
    step_bytes_ += bytes(slice.in);
  }
  for (const auto& stack : edit.stacks) step_bytes_ += bytes(stack.value);
  for (size_t i = 0; i < body_.nodes().size(); ++i) {
    const Node& node = body_.nodes()[i];
    bool is_sequential = has_effect(node);
    bool varying = is_sequential;
    for_each_operand_value(node, [&](Value value) {
      varying = varying || varies_[value.id];
      is_sequential = is_sequential || sequential_[value.id];
      auto& readers = readers_[value.id];
      if (readers.empty() || readers.back() != i) readers.push_back(i);
    });
    for (const Value output : node.outputs) {
      if (output) varies_[output.id] = varying;
      if (output) sequential_[output.id] = is_sequential;
    }
  }
}

bool BodyFlow::varies(const Node& node) const {
  bool found = false;
  for_each_operand_value(node, [&](Value value) { found = found || varies(value); });
  return found;
}

bool BodyFlow::is_product_with_fixed(const Node& node) const {
  bool has_fixed = false;
  for_each_operand_value(
      node, [&](Value value) { has_fixed = has_fixed || (!varies(value) && body_.meta(value).sizes.size() > 1); });
  return has_fixed && has_tag(node.op, Tag::kComputeHeavy);
}

bool is_plain_addition(const Node& node) {
  if (!has_tag(node.op, Tag::kAddition)) return false;
  const auto* left = std::get_if<Value>(&node.operands[0]);
  const auto* right = std::get_if<Value>(&node.operands[1]);
  const auto* alpha = std::get_if<c10::IValue>(&node.operands[2]);
  return left != nullptr && *left && right != nullptr && *right && alpha != nullptr &&
         alpha->toScalar().toDouble() == 1;
}

}  // namespace diptych::detail
