#include "diptych/backward/run_order.h"

#include <c10/util/flat_hash_map.h>

#include <queue>

namespace diptych::detail {
namespace {

namespace ag = torch::autograd;
using NodePtr = c10::intrusive_ptr<ag::Node>;

/// A node whose gradients have all arrived, and when it ran in the forward.
struct Ready {
  uint64_t sequence_number;
  uint32_t id;
  NodePtr node;
  bool operator<(const Ready& other) const { return sequence_number < other.sequence_number; }
};

/// A node that an edge has led to.
struct Met {
  uint32_t id;
  int missing;  ///< gradients
};

void read_info(const ag::GraphTask& task, RunCall& call) {
  const auto info = task.exec_info_.find(call.node.get());
  if (info == task.exec_info_.end()) return;
  call.needed = info->second.needed_;
  if (!info->second.captures_) return;
  for (const auto& capture : *info->second.captures_) {
    call.captures.push_back({capture.input_idx_, capture.output_idx_});
    call.has_capture_hooks |= !capture.DO_NOT_USE_DEPRECATED_get_capture_hooks().empty();
  }
}

}  // namespace

std::vector<RunCall> calls_in_order(const NodePtr& root, const ag::GraphTask& task) {
  const bool is_filtered = !task.exec_info_.empty();
  ska::flat_hash_map<const ag::Node*, Met> met;
  met.reserve(task.dependencies_.size());
  std::priority_queue<Ready> ready;
  std::vector<RunCall> calls;
  calls.reserve(task.dependencies_.size() + 1);
  uint32_t last_id = 1;
  ready.push({root->sequence_nr(), last_id, root});
  while (!ready.empty()) {
    RunCall& call = calls.emplace_back();
    call.node = ready.top().node;
    call.id = ready.top().id;
    ready.pop();
    if (is_filtered) read_info(task, call);
    if (!call.needed) continue;
    for (const ag::Edge& edge : call.node->next_edges()) {
      if (!edge.is_valid()) {
        call.next.push_back(0);
        continue;
      }
      auto found = met.find(edge.function.get());
      if (found == met.end()) {
        found = met.emplace(edge.function.get(), Met{++last_id, task.dependencies_.at(edge.function.get())}).first;
      }
      call.next.push_back(found->second.id);
      if (--found->second.missing > 0) continue;
      const auto info = is_filtered ? task.exec_info_.find(edge.function.get()) : task.exec_info_.end();
      const bool is_executed = !is_filtered || (info != task.exec_info_.end() && info->second.should_execute());
      if (is_executed) ready.push({edge.function->sequence_nr(), found->second.id, edge.function});
    }
  }
  return calls;
}

}  // namespace diptych::detail
