#include "diptych/scan_passes/sink_from_scans.h"

#include <algorithm>
#include <map>

#include "diptych/base/check.h"
#include "diptych/ops/summing.h"
#include "diptych/ops/tags.h"
#include "diptych/scan_passes/stack_views.h"

namespace diptych::detail {
namespace {

/// Writes one scan by its plan.
class Sinker {
 public:
  Sinker(ScanEdit& edit, const SinkPlan& plan) : edit_(edit), body_(edit.body()), plan_(plan), flow_(edit) {}

  void run() {
    take_apart();
    const auto results = edit_.write();
    after_scan_ = edit_.outer().graph().nodes().size() - 1;
    for (const auto& slice : edit_.slices) known_[slice.in.id] = {slice.outer, true};
    for (const auto& operand : edit_.free) known_[operand.in.id] = {operand.outer, false};
    for (const Value value : plan_.stacked()) {
      auto emitter = edit_.emitter();
      known_[value.id] = {detail::rows_of(emitter, edit_, results, value), true};
    }
    for (size_t i = 0; i < body_.nodes().size(); ++i) {
      if (plan_.is_moved(i) && !is_left_to_sum(i)) batch(body_.nodes()[i]);
    }
    edit_.map_all(results);
    for (const auto& stack : edit_.stacks) {
      if (stack.result) claim(results.stacks[&stack - edit_.stacks.data()], *stack.result);
    }
    for (const auto& stack : moved_stacks_) map_moved(stack);
    for (size_t i = 0; i < summed_.size(); ++i) write_sum(summed_[i], plan_.sums()[i].term);
  }

 private:
  bool is_moved(Value value) const {
    const int32_t producer = flow_.producer(value);
    return producer >= 0 && plan_.is_moved(producer);
  }
  bool varies(Value value) const { return flow_.varies(value); }
  bool is_left_to_sum(size_t i) const { return plan_.is_only_summed(i) && rule_of(body_.nodes()[i]) != SumRule::kNone; }
  SumRule rule_of(const Node& node) const {
    return sum_rule(body_, node, [&](Value value) { return varies(value); });
  }

  // Removes what leaves the loop from the lists, and adds what the loop must stack for it.
  void take_apart() {
    std::vector<ScanEdit::Carry> carries;
    std::vector<bool> is_sum(edit_.carries.size());
    for (const auto& sum : plan_.sums()) {
      summed_.push_back(edit_.carries[sum.carry]);
      is_sum[sum.carry] = true;
    }
    for (size_t i = 0; i < is_sum.size(); ++i) {
      if (!is_sum[i]) carries.push_back(edit_.carries[i]);
    }
    edit_.carries = std::move(carries);
    std::vector<ScanEdit::Stack> stacks;
    for (const auto& stack : edit_.stacks) {
      const bool leaves = !stack.front && (is_moved(stack.value) || flow_.is_slice(stack.value));
      (leaves ? moved_stacks_ : stacks).push_back(stack);
    }
    edit_.stacks = std::move(stacks);
    size_t count = 0;
    for (const Value value : plan_.stacked()) {
      if (detail::has_rows_of(edit_, value)) continue;
      edit_.stacks.push_back({value, {SlotKind::kOutput, fmt::format("sunk.{}", count++)}});
    }
  }

  // Returns a value of the body as it is known outside; one that is the same in every step is computed when first
  // needed.
  BatchedValue find(Value value) {
    const auto known = known_.find(value.id);
    if (known != known_.end()) return known->second;
    DIPTYCH_ASSERT(!varies(value), "%{} of a scan's body is neither stacked nor computed after the loop", value.id);
    if (const Node* producer = body_.producer(value)) {
      const auto outputs = edit_.copy_outside(*producer, [&](Value operand) { return find(operand).value; });
      for (size_t i = 0; i < outputs.size(); ++i) {
        if (outputs[i]) known_[producer->outputs[i].id] = {outputs[i], false};
      }
    } else {
      known_[value.id] = {edit_.outer().graph().add_constant(body_.constants()[body_.info(value).index]), false};
    }
    return known_.at(value.id);
  }

  void batch(const Node& node) {
    auto emitter = edit_.emitter(node);
    const auto outputs = batch_node(
        emitter, body_, node, [&](Value value) { return find(value); }, edit_.attributes.length);
    DIPTYCH_ASSERT(outputs.has_value(), "{} was planned to run after its scan but has no rule", node.op.name());
    for (size_t i = 0; i < outputs->size(); ++i) {
      if (node.outputs[i]) known_[node.outputs[i].id] = {(*outputs)[i], true};
    }
  }

  Value sum_of(Value value) {
    const int32_t producer = flow_.producer(value);
    if (producer >= 0 && plan_.is_moved(producer) && is_left_to_sum(producer)) {
      const Node& node = body_.nodes()[producer];
      const auto find_value = [&](Value operand) { return find(operand); };
      auto emitter = edit_.emitter(node);
      return sum_steps(
          emitter, body_, node, find_value, [&](Value operand) { return sum_of(operand); }, edit_.attributes.length);
    }
    auto emitter = edit_.emitter();
    return sum_steps(emitter, find(value), body_.meta(value), edit_.attributes.length);
  }

  void write_sum(const ScanEdit::Carry& carry, Value term) {
    const Value sum = sum_of(term);
    auto emitter = edit_.emitter();
    // A sum that the caller gets may share its memory with other results that are made from it.
    if (detail::is_zeros(edit_.outer().graph(), carry.outer)) {
      return edit_.map(carry.result, sum, edit_.escapes(carry.result) && claims(sum));
    }
    edit_.map(carry.result, emitter.call("aten.add.Tensor", {carry.outer, sum}), true);
  }

  // The value that owns the memory of `value`.
  Value root(Value value) const {
    const Graph& graph = edit_.outer().graph();
    for (const Node* node = graph.producer(value); node != nullptr && has_tag(node->op, Tag::kSharesStorage);
         node = graph.producer(value)) {
      value = std::get<Value>(node->operands[0]);
    }
    return value;
  }
  // Returns whether `value` is in memory that was made here and that no other escaping result has; if so, claims it.
  bool claims(Value value) {
    const Value base = root(value);
    const auto& info = edit_.outer().graph().info(base);
    const bool is_new = info.kind == ValueInfo::Kind::kNode && static_cast<size_t>(info.node) >= after_scan_;
    if (!is_new || std::find(claimed_.begin(), claimed_.end(), base) != claimed_.end()) return false;
    claimed_.push_back(base);
    return true;
  }
  void claim(Value value, size_t result) {
    if (edit_.escapes(result)) claimed_.push_back(root(value));
  }

  void map_moved(const ScanEdit::Stack& stack) {
    const Value value = find(stack.value).value;
    edit_.map(*stack.result, value, edit_.escapes(*stack.result) && claims(value));
  }

  ScanEdit& edit_;
  const Graph& body_;
  const SinkPlan& plan_;
  detail::BodyFlow flow_;
  std::vector<ScanEdit::Carry> summed_;
  std::vector<ScanEdit::Stack> moved_stacks_;
  std::map<int32_t, BatchedValue> known_;
  std::vector<Value> claimed_;
  size_t after_scan_ = 0;
};

}  // namespace

bool sink(ScanEdit& edit, const SinkOptions& options) {
  const SinkPlan plan(edit, options);
  if (!plan.any()) return false;
  Sinker(edit, plan).run();
  return true;
}

Graph sink_from_scans(const Graph& graph) {
  return detail::rewrite_scans(graph, "sink_from_scans", [](ScanEdit& edit) { return detail::sink(edit, {}); });
}

}  // namespace diptych::detail
