// A graph made ready to run as native steps: see block.h.
#pragma once
#include <ATen/core/Tensor.h>

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "diptych/graph/graph.h"
#include "diptych/native/call/call_fit.h"
#include "diptych/native/plan/block.h"

namespace diptych::detail {

/// A planned graph. Threads: run() from any at once.
class Plan {
 public:
  /// Returns null where a graph has no plan; `why` then says what stands in the way.
  static std::shared_ptr<const Plan> make(const Graph& graph, std::string& why);

  /// Returns the graph's results, in memory of their own; no results where the interpreter has to run the graph:
  /// inputs of other sizes, or a value that makes a kernel impossible. `inputs` of other strides are copied.
  std::vector<at::Tensor> run(std::vector<at::Tensor>& inputs) const;
  /// Bytes that a run takes besides its inputs and results.
  int64_t memory_bytes() const { return block_.memory_bytes; }

 private:
  Plan() = default;
  Workspace borrow() const;
  void give_back(Workspace workspace) const;

  Block block_;
  std::vector<Place> windows_;
  std::vector<CallShapes::Tensor> inputs_;
  std::vector<Place> outputs_;
  mutable std::mutex mutex_;
  mutable std::vector<Workspace> free_;
};

/// What became of a body: its plan, or why it has none.
struct PlanOfBody {
  std::shared_ptr<const Plan> plan;
  std::string why;
};

/// Returns the plan of a node's body: one that somebody holds, or else one that is made now. Threads: any.
std::shared_ptr<const PlanOfBody> plan_of(const std::shared_ptr<const Graph>& body);

}  // namespace diptych::detail
