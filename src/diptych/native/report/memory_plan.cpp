#include "diptych/native/report/memory_plan.h"

#include <algorithm>

#include "diptych/interpreter/allocated_results.h"
#include "diptych/interpreter/lifetimes.h"
#include "diptych/interpreter/reuse.h"
#include "diptych/native/call/kernel_code.h"
#include "diptych/native/call/overwritable_inputs.h"
#include "diptych/native/fusion/fused_node.h"
#include "diptych/native/kernel/memory_extent.h"
#include "diptych/native/memory/result_pool.h"
#include "diptych/native/plan/plan.h"
#include "diptych/native/plan/planned_node.h"
#include "diptych/passes/storage_roots.h"

namespace diptych::detail {
namespace {

int64_t bytes_of(const TensorMeta& meta) {
  return span_of(meta.size_hints(), meta.stride_hints()) * static_cast<int64_t>(c10::elementSize(meta.dtype));
}

bool same_shape(const TensorMeta& a, const TensorMeta& b) {
  return a.dtype == b.dtype && a.size_hints() == b.size_hints() && a.stride_hints() == b.stride_hints();
}

class Planner {
 public:
  Planner(const Graph& graph, const std::vector<bool>& donated)
      : graph_(graph),
        lifetimes_(find_lifetimes(graph)),
        roots_(storage_roots(graph)),
        storage_of_(graph.num_values(), kNone),
        made_as_(graph.num_values(), kNone) {
    for (size_t i = 0; i < donated.size(); ++i) {
      if (donated[i]) hold(graph.inputs()[i], add_storage(graph.inputs()[i], /*is_pooled=*/true));
    }
    for (const Value value : lifetimes_.unused_inputs) release(value);
  }

  MemoryPlan plan() {
    for (size_t i = 0; i < graph_.nodes().size(); ++i) run(graph_.nodes()[i], lifetimes_.dying[i]);
    plan_.escaping = live_;
    return plan_;
  }

 private:
  static constexpr int32_t kNone = -1;
  // Memory that the run owns.
  struct Storage {
    int64_t bytes = 0;
    bool is_pooled = false;
    int32_t holders = 0;  // values
  };

  void run(const Node& node, const std::vector<Value>& dying) {
    std::vector<Value> results;
    if (is_fused(node)) {
      run_kernel(node, dying, results);
    } else if (const int64_t memory = is_planned(node) ? memory_of_plan(node) : kNone; memory != kNone) {
      for (const Value output : node.outputs) {
        hold(output, add_storage(output, /*is_pooled=*/true));
        results.push_back(output);
      }
      plan_.peak = std::max(plan_.peak, live_ + memory);
    } else {
      run_operator(node, dying, results);
    }
    plan_.peak = std::max(plan_.peak, live_);
    for (const Value value : results) {
      if (!lifetimes_.is_used[value.id]) release(value);
    }
    for (const Value value : dying) release(value);
  }

  void run_kernel(const Node& node, const std::vector<Value>& dying, std::vector<Value>& results) {
    const auto code = code_of(node.subgraphs[0]);
    const bool has_kernel = code->code != nullptr;
    const auto& inputs = std::get<ValueList>(node.operands[0]);
    const auto overwritable = has_kernel && !code->has_check ? overwritable_inputs(*code->kernel)
                                                             : std::vector<std::vector<int32_t>>(node.outputs.size());
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const Value output = node.outputs[i];
      if (!output) continue;
      int32_t storage = kNone;
      for (const int32_t input : overwritable[i]) {
        if (storage == kNone && may_overwrite(inputs[input], output, dying)) storage = taken_from(inputs[input]);
      }
      hold(output, storage == kNone ? add_storage(output, has_kernel) : storage);
      results.push_back(output);
    }
  }

  // What the steps of a loop have besides operands and results; none if it has no plan.
  static int64_t memory_of_plan(const Node& node) {
    const auto plan = plan_of(node.subgraphs[0])->plan;
    return plan == nullptr ? kNone : result_block_size(plan->memory_bytes());
  }

  void run_operator(const Node& node, const std::vector<Value>& dying, std::vector<Value>& results) {
    for (const auto& body : node.subgraphs) plan_.peak = std::max(plan_.peak, live_ + plan_memory(*body).peak);
    const Value reusable = find_reusable_operand(graph_, node, dying);
    for (const Value output : node.outputs) {
      if (!output) continue;
      if (roots_[output.id] != output) {
        if (const int32_t storage = made_as_[roots_[output.id].id]; storage != kNone) hold(output, storage);
      } else if (reusable && may_overwrite(reusable, output, dying)) {
        hold(output, taken_from(reusable));
      } else {
        hold(output, add_storage(output, has_allocated_result(node)));
      }
      results.push_back(output);
    }
  }

  // A result is written over a value that dies, whose whole memory it is and nothing else's.
  bool may_overwrite(Value value, Value output, const std::vector<Value>& dying) const {
    const int32_t storage = storage_of_[value.id];
    return storage != kNone && std::find(dying.begin(), dying.end(), value) != dying.end() &&
           storages_[storage].holders == 1 && storages_[storage].bytes == graph_.meta(value).nbytes() &&
           same_shape(graph_.meta(value), graph_.meta(output));
  }

  int32_t taken_from(Value value) {
    const int32_t storage = storage_of_[value.id];
    storage_of_[value.id] = kNone;
    --storages_[storage].holders;
    return storage;
  }

  int32_t add_storage(Value value, bool is_pooled) {
    storages_.push_back({bytes_of(graph_.meta(value)), is_pooled, 0});
    if (is_pooled) live_ += result_block_size(storages_.back().bytes);
    plan_.peak = std::max(plan_.peak, live_);
    return static_cast<int32_t>(storages_.size()) - 1;
  }

  void hold(Value value, int32_t storage) {
    storage_of_[value.id] = storage;
    made_as_[value.id] = storage;
    ++storages_[storage].holders;
  }

  void release(Value value) {
    const int32_t storage = storage_of_[value.id];
    if (storage == kNone) return;
    if (--storages_[storage].holders == 0 && storages_[storage].is_pooled) {
      live_ -= result_block_size(storages_[storage].bytes);
    }
    storage_of_[value.id] = kNone;
  }

  const Graph& graph_;
  const Lifetimes lifetimes_;
  const std::vector<Value> roots_;
  std::vector<int32_t> storage_of_;  // by value that holds one; none where someone else owns it
  std::vector<int32_t> made_as_;     // the same of all values so far, for views of those that are freed
  std::vector<Storage> storages_;
  int64_t live_ = 0;
  MemoryPlan plan_;
};

}  // namespace

MemoryPlan plan_memory(const Graph& graph, const std::vector<bool>& donated) { return Planner(graph, donated).plan(); }

}  // namespace diptych::detail
