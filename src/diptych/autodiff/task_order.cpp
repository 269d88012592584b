#include "diptych/autodiff/task_order.h"

#include <queue>

namespace diptych::detail {
namespace {

namespace ag = torch::autograd;
using NodePtr = c10::intrusive_ptr<ag::Node>;

struct RanEarlier {
  bool operator()(const NodePtr& a, const NodePtr& b) const { return a->sequence_nr() < b->sequence_nr(); }
};

}  // namespace

std::vector<TaskCall> calls_in_order(const NodePtr& root, const ag::GraphTask& task) {
  auto missing = task.dependencies_;
  const bool is_filtered = !task.exec_info_.empty();
  std::priority_queue<NodePtr, std::vector<NodePtr>, RanEarlier> ready;
  std::vector<TaskCall> calls;
  calls.reserve(missing.size() + 1);
  ready.push(root);
  while (!ready.empty()) {
    TaskCall& call = calls.emplace_back(TaskCall{ready.top(), true, {}});
    ready.pop();
    if (const auto info = task.exec_info_.find(call.node.get()); info != task.exec_info_.end()) {
      call.needed = info->second.needed_;
      if (info->second.captures_) {
        for (const auto& capture : *info->second.captures_) {
          call.captures.push_back({capture.input_idx_, capture.output_idx_});
        }
      }
    }
    if (!call.needed) continue;
    for (const ag::Edge& edge : call.node->next_edges()) {
      if (!edge.is_valid() || --missing.at(edge.function.get()) > 0) continue;
      const auto info = task.exec_info_.find(edge.function.get());
      const bool is_executed = !is_filtered || (info != task.exec_info_.end() && info->second.should_execute());
      if (is_executed) ready.push(edge.function);
    }
  }
  return calls;
}

}  // namespace diptych::detail
