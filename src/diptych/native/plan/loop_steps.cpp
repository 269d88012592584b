#include "diptych/native/plan/loop_steps.h"

#include <c10/util/SmallVector.h>

#include <cstring>

namespace diptych::detail {
namespace {

void copy(char* to, const char* from, int64_t bytes) {
  if (to != from && bytes > 0) std::memcpy(to, from, static_cast<size_t>(bytes));
}

// The addresses of carries while steps run.
class CarryAddresses {
 public:
  CarryAddresses(const std::vector<Carry>& carries, char* const* regions) : carries_(carries), outer_(regions) {
    for (const Carry& carry : carries) now_.push_back(carry.init.data(regions));
  }
  char* operator[](size_t index) const { return now_[index]; }

  // Sets the block's regions for step number `step`: where carries are, and where the next ones go to.
  void enter(const Block& block, int64_t step, Regions& regions) const {
    for (size_t i = 0; i < carries_.size(); ++i) {
      regions[i] = now_[i];
      if (carries_[i].output >= 0) regions[block.num_inputs + carries_[i].output] = buffer(carries_[i], step);
    }
  }
  void advance(const Block& block, const Regions& regions, const std::vector<StackPlace>& stacks) {
    for (size_t i = 0; i < carries_.size(); ++i) {
      const Carry& carry = carries_[i];
      const int32_t output = carry.stack >= 0 ? stacks[carry.stack].output : carry.output;
      if (output >= 0) now_[i] = regions[block.num_inputs + output];
    }
  }
  void finish() const {
    for (size_t i = 0; i < carries_.size(); ++i)
      copy(carries_[i].result.data(outer_), now_[i], carries_[i].result.bytes());
  }

 private:
  char* buffer(const Carry& carry, int64_t step) const {
    return carry.buffers.data(outer_) + (step % 2) * (carry.buffers.span() / 2);
  }

  const std::vector<Carry>& carries_;
  char* const* outer_;
  c10::SmallVector<char*, 8> now_;
};

int64_t row_bytes(const Place& stack) { return stack.strides[0] * stack.itemsize(); }

}  // namespace

bool ScanStep::run(char* const* regions, Workspace& workspace) const {
  const Block& block = plan_.block;
  auto inner = block.regions(plan_.memory.data(regions));
  const size_t first_free = plan_.carries.size() + plan_.slices.size();
  for (size_t i = 0; i < plan_.free.size(); ++i) inner[first_free + i] = plan_.free[i].data(regions);
  const int64_t length = plan_.steps * plan_.rows_per_step;
  for (const StackPlace& stack : plan_.stacks) {
    if (stack.front < 0) continue;
    const Place& first = plan_.carries[stack.front].init;
    const int64_t row = plan_.reverse ? length : 0;
    copy(stack.place.data(regions) + row * row_bytes(stack.place), first.data(regions), first.bytes());
  }
  CarryAddresses carries(plan_.carries, regions);
  for (int64_t step = 0; step < plan_.steps; ++step) {
    const int64_t row = (plan_.reverse ? plan_.steps - 1 - step : step) * plan_.rows_per_step;
    carries.enter(block, step, inner);
    for (size_t i = 0; i < plan_.slices.size(); ++i) {
      inner[plan_.carries.size() + i] = plan_.slices[i].data(regions) + row * row_bytes(plan_.slices[i]);
    }
    for (const StackPlace& stack : plan_.stacks) {
      const int64_t shift = stack.front >= 0 && !plan_.reverse ? 1 : 0;
      inner[block.num_inputs + stack.output] = stack.place.data(regions) + (row + shift) * row_bytes(stack.place);
    }
    if (!block.run(inner.data(), workspace)) return false;
    carries.advance(block, inner, plan_.stacks);
  }
  carries.finish();
  return true;
}

bool WhileStep::run(char* const* regions, Workspace& workspace) const {
  auto inner = plan_.block.regions(plan_.memory.data(regions));
  auto asked = plan_.condition.regions(plan_.condition_memory.data(regions));
  const size_t first_free = plan_.carries.size();
  for (size_t i = 0; i < plan_.free.size(); ++i) inner[first_free + i] = plan_.free[i].data(regions);
  for (size_t i = 0; i < plan_.condition_free.size(); ++i)
    asked[first_free + i] = plan_.condition_free[i].data(regions);
  asked[plan_.condition.num_inputs] = plan_.holds.data(regions);
  CarryAddresses carries(plan_.carries, regions);
  for (int64_t step = 0;; ++step) {
    for (size_t i = 0; i < plan_.carries.size(); ++i) asked[i] = carries[i];
    if (!plan_.condition.run(asked.data(), workspace)) return false;
    if (!*reinterpret_cast<const bool*>(plan_.holds.data(regions))) break;
    carries.enter(plan_.block, step, inner);
    if (!plan_.block.run(inner.data(), workspace)) return false;
    carries.advance(plan_.block, inner, {});
  }
  carries.finish();
  return true;
}

bool BranchStep::run(char* const* regions, Workspace& workspace) const {
  const bool is_first = predicate_.empty() || *reinterpret_cast<const bool*>(predicate_[0].data(regions));
  const Branch& branch = branches_[is_first ? 0 : 1];
  auto inner = branch.block.regions(branch.memory.data(regions));
  for (size_t i = 0; i < branch.inputs.size(); ++i) inner[i] = branch.inputs[i].data(regions);
  for (size_t i = 0; i < branch.outputs.size(); ++i) {
    inner[branch.block.num_inputs + i] = branch.outputs[i].data(regions);
  }
  return branch.block.run(inner.data(), workspace);
}

}  // namespace diptych::detail
