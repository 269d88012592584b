// Steps that run blocks: scans, loops and branches. They move addresses along and call the blocks' steps.
#pragma once
#include <vector>

#include "diptych/native/plan/block.h"
#include "diptych/ops/scan_nodes.h"

namespace diptych::detail {

/// A carry of a loop.
struct Carry {
  Place init, result;
  Place buffers;  ///< two dense ones in a row, which steps write to in turn; no region where no step needs them
  /// How its next value comes about: `output` is the block's output, or -1 if it stays what it is or if a stack's row
  /// holds it.
  int32_t output = -1;
  int32_t stack = -1;
};

/// A stack that each step writes rows to.
struct StackPlace {
  Place place;
  int32_t output = -1;  ///< of the block
  int32_t front = -1;   ///< see Note [Stacks with a front]
};

/// What a scan's block is run with. The block's inputs are carries, slices and free operands.
struct ScanPlan {
  Block block;
  Place memory;  ///< of the block
  int64_t steps = 0, rows_per_step = 1;
  bool reverse = false;
  std::vector<Carry> carries;
  std::vector<Place> slices, free;  ///< slices are whole
  std::vector<StackPlace> stacks;
};

class ScanStep final : public PlanStep {
 public:
  explicit ScanStep(ScanPlan plan) : plan_(std::move(plan)) {}
  bool run(char* const* regions, Workspace& workspace) const override;

 private:
  ScanPlan plan_;
};

/// What a while_loop's blocks are run with. Their inputs are carries and free operands.
struct WhilePlan {
  Block condition, block;
  Place condition_memory, memory;
  Place holds;  ///< the condition's result
  std::vector<Carry> carries;
  std::vector<Place> condition_free, free;
};

class WhileStep final : public PlanStep {
 public:
  explicit WhileStep(WhilePlan plan) : plan_(std::move(plan)) {}
  bool run(char* const* regions, Workspace& workspace) const override;

 private:
  WhilePlan plan_;
};

/// One body of a branch.
struct Branch {
  Block block;
  Place memory;
  std::vector<Place> inputs, outputs;
};

/// Runs the first branch if there is no predicate or it holds, else the second.
class BranchStep final : public PlanStep {
 public:
  BranchStep(std::vector<Place> predicate, std::vector<Branch> branches)
      : predicate_(std::move(predicate)), branches_(std::move(branches)) {}
  bool run(char* const* regions, Workspace& workspace) const override;

 private:
  std::vector<Place> predicate_;  // none or one
  std::vector<Branch> branches_;
};

}  // namespace diptych::detail
