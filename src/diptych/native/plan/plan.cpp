#include "diptych/native/plan/plan.h"

#include "diptych/native/call/body_table.h"
#include "diptych/native/memory/result_pool.h"
#include "diptych/native/plan/block_maker.h"

namespace diptych::detail {
namespace {

constexpr size_t kMostKept = 8;  // workspaces, as many as threads call at once

// A plan holds constants, so it is freed with the last one who uses it.
struct PlanSlot {
  std::mutex mutex;
  std::weak_ptr<const PlanOfBody> made;
};

}  // namespace

std::shared_ptr<const Plan> Plan::make(const Graph& graph, std::string& why) {
  std::shared_ptr<Plan> plan(new Plan);
  std::vector<BlockResult> results;
  for (const Value output : graph.outputs()) {
    results.push_back({output, output ? graph.meta(output) : TensorMeta()});
  }
  try {
    plan->block_ = make_block(graph, results, plan->windows_);
  } catch (const Unplannable& problem) {
    why = problem.why;
    return nullptr;
  } catch (const std::exception& error) {
    why = error.what();
    return nullptr;
  }
  for (const Value input : graph.inputs()) {
    const TensorMeta& meta = graph.meta(input);
    plan->inputs_.push_back(CallShapes::Tensor::of(meta.dtype, meta.size_hints(), meta.stride_hints()));
  }
  for (const BlockResult& result : results) plan->outputs_.push_back(place_of(result.meta, 0));
  return plan;
}

std::shared_ptr<const PlanOfBody> plan_of(const std::shared_ptr<const Graph>& body) {
  static auto* const plans = new BodyTable<PlanSlot>;
  const auto slot = plans->find(body);
  const std::lock_guard lock(slot->mutex);
  if (auto known = slot->made.lock()) return known;
  auto made = std::make_shared<PlanOfBody>();
  made->plan = Plan::make(*body, made->why);
  slot->made = made;
  return made;
}

std::vector<at::Tensor> Plan::run(std::vector<at::Tensor>& inputs) const {
  if (!make_fit(inputs_, inputs)) return {};
  // The pool's, which other nodes have between runs.
  const c10::DataPtr memory = result_pool()->allocate(static_cast<size_t>(block_.memory_bytes));
  auto workspace = borrow();
  auto regions = block_.regions(static_cast<char*>(memory.get()));
  for (size_t i = 0; i < inputs.size(); ++i) {
    regions[i] = region_at(inputs[i].const_data_ptr());
  }
  std::vector<at::Tensor> outputs;
  for (const Place& output : outputs_) {
    outputs.push_back(new_result(output.sizes, output.strides, output.dtype));
    regions[inputs.size() + outputs.size() - 1] = region_at(outputs.back().mutable_data_ptr());
  }
  if (!block_.run(regions.data(), workspace)) outputs.clear();
  give_back(std::move(workspace));
  return outputs;
}

Workspace Plan::borrow() const {
  {
    const std::lock_guard lock(mutex_);
    if (!free_.empty()) {
      auto workspace = std::move(free_.back());
      free_.pop_back();
      return workspace;
    }
  }
  Workspace workspace;
  for (const Place& window : windows_) workspace.windows.push_back(make_window(window));
  return workspace;
}

void Plan::give_back(Workspace workspace) const {
  const std::lock_guard lock(mutex_);
  if (free_.size() < kMostKept) free_.push_back(std::move(workspace));
}

}  // namespace diptych::detail
