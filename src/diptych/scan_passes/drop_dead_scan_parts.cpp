#include "diptych/scan_passes/drop_dead_scan_parts.h"

#include <algorithm>

#include "diptych/ops/tags.h"
#include "diptych/scan_passes/scan_edit.h"

namespace diptych::detail {
namespace {

/// The values of a body that its live outputs and its effects need; carries that they need are live themselves.
class Liveness {
 public:
  explicit Liveness(const ScanEdit& edit) : body_(edit.body()), needed_(body_.num_values()) {
    for (const auto& carry : edit.carries) live_carries_.push_back(edit.is_used(carry.result));
    for (const auto& stack : edit.stacks) live_stacks_.push_back(!stack.result || edit.is_used(*stack.result));
    while (spread(edit)) {
    }
  }

  bool needs(Value value) const { return needed_[value.id]; }
  bool is_live_carry(size_t i) const { return live_carries_[i]; }
  bool is_live_stack(size_t i) const { return live_stacks_[i]; }

 private:
  bool spread(const ScanEdit& edit) {
    for (size_t i = 0; i < live_carries_.size(); ++i) {
      if (live_carries_[i]) needed_[edit.carries[i].out.id] = true;
    }
    for (size_t i = 0; i < live_stacks_.size(); ++i) {
      if (!live_stacks_[i]) continue;
      needed_[edit.stacks[i].value.id] = true;
      if (edit.stacks[i].front) needed_[edit.stacks[i].front.id] = true;
    }
    for (size_t i = body_.nodes().size(); i-- > 0;) {
      const Node& node = body_.nodes()[i];
      const bool wanted = std::any_of(node.outputs.begin(), node.outputs.end(),
                                      [&](Value output) { return output && needed_[output.id]; });
      if (wanted || has_effect(node)) for_each_operand_value(node, [&](Value value) { needed_[value.id] = true; });
    }
    bool changed = false;
    for (size_t i = 0; i < live_carries_.size(); ++i) {
      if (live_carries_[i] || !needed_[edit.carries[i].in.id]) continue;
      live_carries_[i] = changed = true;
    }
    return changed;
  }

  const Graph& body_;
  std::vector<bool> needed_;
  std::vector<bool> live_carries_, live_stacks_;
};

template <class T, class Keep>
bool keep_if(std::vector<T>& list, Keep keep) {
  std::vector<T> kept;
  for (size_t i = 0; i < list.size(); ++i) {
    if (keep(i)) kept.push_back(list[i]);
  }
  const bool changed = kept.size() != list.size();
  list = std::move(kept);
  return changed;
}

// Lets the body read the first of equal operands.
bool merge_equal(ScanEdit& edit, std::vector<ScanEdit::Input> ScanEdit::*inputs) {
  const Graph& body = edit.body();
  std::vector<std::pair<Value, Value>> replaced;
  auto& list = edit.*inputs;
  for (size_t i = 0; i < list.size(); ++i) {
    const auto same = std::find_if(list.begin(), list.begin() + static_cast<int64_t>(i), [&](const auto& other) {
      return other.outer == list[i].outer && body.meta(other.in) == body.meta(list[i].in);
    });
    if (same != list.begin() + static_cast<int64_t>(i)) replaced.emplace_back(list[i].in, same->in);
  }
  if (replaced.empty()) return false;
  Rewriter rewriter(body);
  rewriter.copy_inputs();
  const auto inputs_written = rewriter.graph().inputs();
  for (const auto& [old, same] : replaced) rewriter.map(old, rewriter[same]);
  for (const Node& node : body.nodes()) rewriter.copy_node(node);
  edit.set_body(rewriter.finish());
  return true;
}

bool drop_dead(ScanEdit& edit) {
  // If nothing reads a result of the scan and it has no effect, remove_dead_nodes() removes the whole node.
  const auto& outputs = edit.node().outputs;
  bool any_used = false;
  for (size_t i = 0; i < outputs.size(); ++i) any_used = any_used || edit.is_used(i);
  if (!any_used && !has_effect(edit.node())) return false;
  bool changed = merge_equal(edit, &ScanEdit::slices);
  changed = merge_equal(edit, &ScanEdit::free) || changed;
  const Liveness live(edit);
  changed = keep_if(edit.carries, [&](size_t i) { return live.is_live_carry(i); }) || changed;
  changed = keep_if(edit.stacks, [&](size_t i) { return live.is_live_stack(i); }) || changed;
  const auto is_read = [&](const auto& list) { return [&](size_t i) { return live.needs(list[i].in); }; };
  changed = keep_if(edit.slices, is_read(edit.slices)) || changed;
  changed = keep_if(edit.free, is_read(edit.free)) || changed;
  if (!changed) return false;
  edit.map_all(edit.write());
  return true;
}

}  // namespace

Graph drop_dead_scan_parts(const Graph& graph) {
  return detail::rewrite_scans(graph, "drop_dead_scan_parts", drop_dead);
}

}  // namespace diptych::detail
