#include "diptych/scan_passes/sink_plan.h"

#include <algorithm>

#include "diptych/ops/summing.h"
#include "diptych/ops/tags.h"

namespace diptych::detail {
namespace {

Value value_operand(const Node& node, size_t i) {
  const auto* value = std::get_if<Value>(&node.operands[i]);
  return value != nullptr ? *value : Value{};
}

}  // namespace

SinkPlan::SinkPlan(const ScanEdit& edit, const SinkOptions& options)
    : edit_(edit),
      body_(edit.body()),
      options_(options),
      flow_(edit),
      is_sum_(body_.nodes().size()),
      is_term_(body_.num_values()),
      is_stacked_(body_.num_values()),
      is_fronted_(body_.num_values()),
      put_back_(body_.nodes().size()) {
  for (const auto& stack : edit.stacks) {
    is_stacked_[stack.value.id] = true;
    if (stack.front) is_fronted_[stack.value.id] = true;
  }
  if (!options.only_views) find_sums();
  do {
    mark_needed();
    mark_moved();
  } while (put_back_one() || keep_in_budget() || drop_costly_sum());
}

void SinkPlan::find_sums() {
  for (size_t i = 0; i < edit_.carries.size(); ++i) {
    const auto& carry = edit_.carries[i];
    const auto& readers = flow_.readers(carry.in);
    const int32_t producer = flow_.producer(carry.out);
    if (producer < 0 || readers != std::vector<size_t>{static_cast<size_t>(producer)}) continue;
    const Node& node = body_.nodes()[producer];
    if (!is_plain_addition(node) || !flow_.readers(carry.out).empty() || is_stacked_[carry.out.id]) continue;
    const bool is_first = value_operand(node, 0) == carry.in;
    const Value term = value_operand(node, is_first ? 1 : 0);
    const bool is_other_output = std::count_if(edit_.carries.begin(), edit_.carries.end(), [&](const auto& other) {
                                   return other.out == carry.out || other.out == carry.in;
                                 }) != 1;
    const bool has_front = std::any_of(edit_.stacks.begin(), edit_.stacks.end(), [&](const auto& stack) {
      return (stack.front && stack.front == carry.in) || stack.value == carry.in;
    });
    if (!term || term == carry.in || is_other_output || has_front) continue;
    const auto& meta = body_.meta(term);
    if (meta.sizes != body_.meta(carry.in).sizes || meta.dtype != body_.meta(carry.in).dtype) continue;
    if (meta.dtype == at::kBool) continue;  // a sum of bools says whether any is true; a product with a number does not
    sums_.push_back({i, term});
  }
}

// Marks the nodes that the remaining carries need, and those with effects.
void SinkPlan::mark_needed() {
  std::vector<bool> is_sum_carry(edit_.carries.size());
  is_sum_.assign(body_.nodes().size(), false);
  is_term_.assign(body_.num_values(), false);
  for (const Sum& sum : sums_) {
    is_sum_carry[sum.carry] = true;
    is_sum_[flow_.producer(edit_.carries[sum.carry].out)] = true;
    is_term_[sum.term.id] = true;
  }
  std::vector<bool> wanted(body_.num_values());
  for (size_t i = 0; i < edit_.carries.size(); ++i) {
    if (!is_sum_carry[i]) wanted[edit_.carries[i].out.id] = true;
  }
  needed_.assign(body_.nodes().size(), false);
  for (size_t i = body_.nodes().size(); i-- > 0;) {
    const Node& node = body_.nodes()[i];
    needed_[i] = has_effect(node);
    for (const Value output : node.outputs) needed_[i] = needed_[i] || (output && wanted[output.id]);
    if (needed_[i]) for_each_operand_value(node, [&](Value value) { wanted[value.id] = true; });
  }
}

void SinkPlan::mark_moved() {
  moved_.assign(body_.nodes().size(), false);
  only_summed_.assign(body_.nodes().size(), false);
  for (size_t i = body_.nodes().size(); i-- > 0;) {
    if (needed_[i] || put_back_[i] || is_sum_[i] || !may_move(i)) continue;
    const auto& outputs = body_.nodes()[i].outputs;
    only_summed_[i] = outputs.size() == 1 && outputs[0] && is_summed_by_all(outputs[0]);
    moved_[i] = has_rule(i);
  }
}

// Whether everything that reads the node runs after the loop as well.
bool SinkPlan::may_move(size_t index) const {
  const Node& node = body_.nodes()[index];
  if (!is_movable(body_, node) || !flow_.varies(node)) return false;
  if (options_.only_views && !has_tag(node.op, Tag::kSharesStorage)) return false;
  bool is_read = false;
  for (const Value output : node.outputs) {
    if (!output) continue;
    if (is_fronted_[output.id]) return false;
    is_read = is_read || is_stacked_[output.id] || is_term_[output.id];
    for (const size_t reader : flow_.readers(output)) {
      if (!moved_[reader] && !is_sum_[reader]) return false;
      is_read = true;
    }
  }
  return is_read;
}

bool SinkPlan::is_summed_by_all(Value value) const {
  if (is_stacked_[value.id]) return false;
  const auto is_varying = [&](Value operand) { return flow_.varies(operand); };
  const auto& readers = flow_.readers(value);
  return std::all_of(readers.begin(), readers.end(), [&](size_t reader) {
    if (is_sum_[reader]) return true;
    return only_summed_[reader] && sum_rule(body_, body_.nodes()[reader], is_varying) == SumRule::kOfSums;
  });
}

bool SinkPlan::has_rule(size_t index) const {
  const Node& node = body_.nodes()[index];
  const auto is_varying = [&](Value value) { return flow_.varies(value); };
  if (only_summed_[index] && sum_rule(body_, node, is_varying) != SumRule::kNone) return true;
  return can_batch(body_, node, is_varying, edit_.attributes.length);
}

// Whether a value is made in the loop and not already known outside.
bool SinkPlan::is_from_loop(Value value) const {
  const int32_t producer = flow_.producer(value);
  return flow_.varies(value) && !flow_.is_slice(value) && (producer < 0 || !moved_[producer]);
}

// The value of the loop that a moved node reads, behind views that are moved with it.
Value SinkPlan::base(Value value) const {
  for (int32_t i = flow_.producer(value); i >= 0 && moved_[i]; i = flow_.producer(value)) {
    if (!has_tag(body_.nodes()[i].op, Tag::kSharesStorage)) break;
    value = std::get<Value>(body_.nodes()[i].operands[0]);
  }
  return value;
}

// Marks the values that are stacked for nodes that gain by it; other nodes may then read them for free.
void SinkPlan::mark_anchored() {
  anchored_.assign(body_.num_values(), false);
  for (size_t i = moved_.size(); i-- > 0;) {
    if (!moved_[i]) continue;
    const auto& outputs = body_.nodes()[i].outputs;
    const bool is_anchored =
        std::any_of(outputs.begin(), outputs.end(), [&](Value output) { return output && anchored_[output.id]; });
    if (!is_anchored && !gains(i)) continue;
    for_each_operand_value(body_.nodes()[i], [&](Value value) { anchored_[value.id] = true; });
  }
}

// The bytes that this node needs stacked and that are stacked only for nodes that gain nothing by it.
int64_t SinkPlan::extra_bytes(size_t index) const {
  int64_t bytes = 0;
  for_each_operand_value(body_.nodes()[index], [&](Value operand) {
    const Value value = base(operand);
    if (is_from_loop(value) && !is_stacked_[value.id] && !anchored_[value.id]) bytes += flow_.bytes(value);
  });
  return bytes;
}

// Whether one node for all steps is much less work than one per step.
bool SinkPlan::gains(size_t index) const {
  const Node& node = body_.nodes()[index];
  return flow_.is_product_with_fixed(node) || (only_summed_[index] && has_tag(node.op, Tag::kComputeHeavy));
}

// Puts back the first node that should not have been moved, if there is one; the others are judged by the new plan.
bool SinkPlan::put_back_one() {
  mark_anchored();
  for (size_t i = 0; i < moved_.size(); ++i) {
    const int64_t extra = moved_[i] ? extra_bytes(i) : 0;
    if (extra == 0 || gains(i)) continue;
    int64_t made = 0;
    for (const Value output : body_.nodes()[i].outputs) made += output ? flow_.bytes(output) : 0;
    const bool is_free = has_tag(body_.nodes()[i].op, Tag::kSharesStorage) || extra <= kSmallSliceBytes;
    if (extra <= made && is_free) continue;
    put_back_[i] = true;
    return true;
  }
  return false;
}

bool SinkPlan::keep_in_budget() {
  int64_t total = 0;
  Value largest;
  for (const Value value : stacked()) {
    const auto& readers = flow_.readers(value);
    const bool is_new = !is_stacked_[value.id];
    total += is_new ? flow_.bytes(value) : 0;
    const bool is_wanted_by_moved = std::any_of(readers.begin(), readers.end(), [&](size_t i) { return moved_[i]; });
    if (is_new && is_wanted_by_moved && (!largest || flow_.bytes(value) > flow_.bytes(largest))) largest = value;
  }
  if (!largest || total <= flow_.step_bytes()) return false;
  for (const size_t reader : flow_.readers(largest)) put_back_[reader] = put_back_[reader] || moved_[reader];
  return true;
}

bool SinkPlan::drop_costly_sum() {
  const auto costly = std::find_if(sums_.begin(), sums_.end(), [&](const Sum& sum) {
    const bool is_stacked = is_stacked_[sum.term.id] || !is_from_loop(sum.term);
    return !is_stacked && flow_.bytes(sum.term) > kSmallSliceBytes;
  });
  if (costly == sums_.end()) return false;
  sums_.erase(costly);
  // With the sum in the loop, other nodes may be worth moving, so all are judged again.
  put_back_.assign(put_back_.size(), false);
  return true;
}

bool SinkPlan::any() const {
  const bool passes_slice = std::any_of(edit_.stacks.begin(), edit_.stacks.end(),
                                        [&](const auto& stack) { return flow_.is_slice(stack.value) && !stack.front; });
  return !sums_.empty() || passes_slice || std::find(moved_.begin(), moved_.end(), true) != moved_.end();
}

std::vector<Value> SinkPlan::stacked() const {
  std::vector<bool> wanted(body_.num_values());
  const auto want = [&](Value value) {
    if (is_from_loop(value)) wanted[value.id] = true;
  };
  for (size_t i = 0; i < moved_.size(); ++i) {
    if (moved_[i]) for_each_operand_value(body_.nodes()[i], want);
  }
  for (const Sum& sum : sums_) want(sum.term);
  std::vector<Value> values;
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i]) values.push_back({static_cast<int32_t>(i)});
  }
  return values;
}

}  // namespace diptych::detail
