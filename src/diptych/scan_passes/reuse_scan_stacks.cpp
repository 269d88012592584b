#include "diptych/scan_passes/reuse_scan_stacks.h"

#include <algorithm>

#include "diptych/scan_passes/scan_edit.h"
#include "diptych/scan_passes/sink_from_scans.h"
#include "diptych/scan_passes/stack_views.h"

namespace diptych::detail {
namespace {

/// Decides which stacks hold the rows of others.
class Sharing {
 public:
  explicit Sharing(ScanEdit& edit) : edit_(edit), old_(edit.stacks) {}

  bool run() {
    give_fronts();
    take_apart();
    if (edit_.stacks.size() == old_.size()) return false;
    const auto results = edit_.write();
    for (const auto& carry : edit_.carries) {
      edit_.map(carry.result, results.carries[&carry - edit_.carries.data()], true);
    }
    // Among escaping results that share one piece of memory, the first keeps it.
    std::vector<Value> given;
    for (const auto& stack : old_) {
      const auto same = std::find_if(edit_.stacks.begin(), edit_.stacks.end(), [&](const auto& kept) {
        return kept.result == stack.result && kept.front == stack.front;
      });
      auto emitter = edit_.emitter();
      const Value value = same != edit_.stacks.end() ? results.stacks[same - edit_.stacks.begin()]
                                                     : detail::rows_of(emitter, edit_, results, stack.value);
      const Value memory = results.stacks[memory_of(stack)];
      const bool is_own = std::find(given.begin(), given.end(), memory) == given.end();
      if (edit_.escapes(*stack.result)) given.push_back(memory);
      edit_.map(*stack.result, value, is_own);
    }
    return true;
  }

 private:
  // A carry that is stacked as it goes in and as it comes out gets one stack for both.
  void give_fronts() {
    for (const auto& carry : edit_.carries) {
      const auto is_going_in = [&](const auto& stack) { return stack.value == carry.in && !stack.front; };
      const auto is_coming_out = [&](const auto& stack) { return stack.value == carry.out && !stack.front; };
      const bool goes_in = std::any_of(edit_.stacks.begin(), edit_.stacks.end(), is_going_in);
      const auto found = std::find_if(edit_.stacks.begin(), edit_.stacks.end(), is_coming_out);
      if (carry.in == carry.out || !goes_in || found == edit_.stacks.end()) continue;
      if (edit_.body().meta(carry.in).strides != edit_.body().meta(carry.out).strides) continue;
      found->front = carry.in;
    }
  }

  // Drops stacks whose rows an earlier stack has.
  void take_apart() {
    auto all = std::move(edit_.stacks);
    edit_.stacks.clear();
    std::stable_partition(all.begin(), all.end(), [](const auto& stack) { return static_cast<bool>(stack.front); });
    for (const auto& stack : all) {
      const bool is_same_front = std::any_of(edit_.stacks.begin(), edit_.stacks.end(), [&](const auto& kept) {
        return kept.value == stack.value && kept.front == stack.front;
      });
      if (is_same_front || (!stack.front && detail::has_rows_of(edit_, stack.value))) continue;
      edit_.stacks.push_back(stack);
    }
  }

  // The index of the stack whose memory holds the rows of an old stack.
  size_t memory_of(const ScanEdit::Stack& old) const {
    for (size_t i = 0; i < edit_.stacks.size(); ++i) {
      const auto& kept = edit_.stacks[i];
      const bool goes_in = kept.front && kept.front == old.value;
      if (kept.value == old.value || goes_in) return i;
    }
    return edit_.stacks.size();
  }

  ScanEdit& edit_;
  std::vector<ScanEdit::Stack> old_;
};

}  // namespace

Graph reuse_scan_stacks(const Graph& graph) {
  const Graph without_views = detail::rewrite_scans(
      graph, "reuse_scan_stacks", [](ScanEdit& edit) { return detail::sink(edit, {.only_views = true}); });
  return detail::rewrite_scans(without_views, "reuse_scan_stacks", [](ScanEdit& edit) { return Sharing(edit).run(); });
}

}  // namespace diptych::detail
