#include "diptych/interpreter/profile.h"

#include <algorithm>

#include "diptych/base/check.h"

namespace diptych {

using namespace detail;

std::vector<ProfileRow> Profile::rows() const {
  const std::lock_guard lock(mutex_);
  return rows_;
}

void Profile::add(const std::vector<ProfileRow>& run) {
  const std::lock_guard lock(mutex_);
  if (rows_.empty()) {
    rows_ = run;
    return;
  }
  DIPTYCH_ASSERT(rows_.size() == run.size(), "a profile of {} nodes got a run of {}", rows_.size(), run.size());
  for (size_t i = 0; i < run.size(); ++i) {
    DIPTYCH_ASSERT(rows_[i].node == run[i].node, "a profile of '{}' got a run of '{}'", rows_[i].node, run[i].node);
    rows_[i].call = run[i].call;
    rows_[i].calls += run[i].calls;
    rows_[i].total_ns += run[i].total_ns;
    rows_[i].output_bytes += run[i].output_bytes;
  }
}

std::string Profile::table() const {
  auto sorted = rows();
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const ProfileRow& a, const ProfileRow& b) { return a.total_ns > b.total_ns; });
  ProfileRow total;
  total.node = "total";
  size_t node_width = 5, scope_width = 5;
  for (const auto& row : sorted) {
    total.calls += row.calls;
    total.total_ns += row.total_ns;
    total.output_bytes += row.output_bytes;
    node_width = std::max(node_width, row.node.size());
    scope_width = std::max(scope_width, row.scope.size());
  }
  sorted.push_back(total);
  auto text = fmt::format("{:<{}}  {:<{}}  {:<8}  {:>8}  {:>12}  {:>10}  {:>6}  {:>14}\n", "node", node_width, "scope",
                          scope_width, "call", "calls", "total us", "us/call", "share", "output bytes");
  for (const auto& row : sorted) {
    const double microseconds = static_cast<double>(row.total_ns) / 1e3;
    text += fmt::format(
        "{:<{}}  {:<{}}  {:<8}  {:>8}  {:>12.1f}  {:>10.2f}  {:>5.1f}%  {:>14}\n", row.node, node_width, row.scope,
        scope_width, row.call, row.calls, microseconds,
        row.calls > 0 ? microseconds / static_cast<double>(row.calls) : 0.0,
        total.total_ns > 0 ? 100.0 * static_cast<double>(row.total_ns) / static_cast<double>(total.total_ns) : 0.0,
        row.output_bytes);
  }
  return text;
}

}  // namespace diptych
