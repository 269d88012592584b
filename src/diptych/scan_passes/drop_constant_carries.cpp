#include "diptych/scan_passes/drop_constant_carries.h"

#include <algorithm>

#include "diptych/scan_passes/scan_edit.h"

namespace diptych::detail {
namespace {

bool drop_constant(ScanEdit& edit) {
  std::vector<ScanEdit::Carry> dropped;
  std::vector<ScanEdit::Carry> kept;
  for (const auto& carry : edit.carries) {
    const bool is_front = std::any_of(edit.stacks.begin(), edit.stacks.end(),
                                      [&](const auto& stack) { return stack.front && stack.front == carry.in; });
    (carry.in == carry.out && !is_front ? dropped : kept).push_back(carry);
  }
  if (dropped.empty()) return false;
  edit.carries = std::move(kept);
  for (const auto& carry : dropped) {
    // The loop copied the carry into the layout that the body was traced for.
    Emitter emitter = edit.emitter();
    edit.free.push_back({with_layout(emitter, carry.outer, edit.body().meta(carry.in)), carry.in, carry.in_slot});
  }
  edit.map_all(edit.write());
  for (const auto& carry : dropped) edit.map(carry.result, carry.outer);
  return true;
}

}  // namespace

Graph drop_constant_carries(const Graph& graph) {
  return detail::rewrite_scans(graph, "drop_constant_carries", drop_constant);
}

}  // namespace diptych::detail
