// Makes the steps of loops and branches.
#pragma once
#include <memory>
#include <vector>

#include "diptych/graph/graph.h"
#include "diptych/native/plan/block.h"

namespace diptych::detail {

/// What a step is made with: the block around it.
class StepBuilder {
 public:
  StepBuilder() = default;
  virtual ~StepBuilder() = default;
  StepBuilder(const StepBuilder&) = delete;
  StepBuilder& operator=(const StepBuilder&) = delete;

  virtual const Graph& graph() const = 0;
  virtual std::vector<Place>& windows() = 0;
  /// The place of a value that was computed before.
  virtual Place place(Value value) = 0;
  /// The same elements with the strides of `meta`: in the same place if they have them, else copied before the step.
  virtual Place in_layout(const Place& from, const TensorMeta& meta) = 0;
  /// Makes the place of a result.
  virtual Place new_place(Value value) = 0;
  /// Memory that is free again after the step.
  virtual Place temporary(int64_t bytes) = 0;
  virtual void add(std::unique_ptr<const PlanStep> step) = 0;
};

/// Whether add_loop() makes a step of such a node.
bool is_planned_loop(const Node& node);

/// Adds the step of a loop or a branch. Returns false for other nodes. Errors: as make_block().
bool add_loop(const Node& node, StepBuilder& builder);

}  // namespace diptych::detail
