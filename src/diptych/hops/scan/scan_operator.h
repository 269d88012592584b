// hop.scan: runs a body once per slice, a carry going from step to step.
#pragma once
#include "diptych/hops/hop.h"

namespace diptych {

/// Groups: the first carries, the tensors that are sliced along their first dimension, what every step reads alike.
/// Constants: those of ScanConstants. The body takes carries, slices and the rest, and gives the next carries, then
/// what is stacked. Results: the last carries, the stacks.
class ScanOperator final : public HigherOrderOperator {
 public:
  ScanOperator() : HigherOrderOperator("scan", 1) {}
  static const ScanOperator& get();

  std::vector<TensorMeta> infer(const Hop& hop) const override;
  HopFunction compile(const Hop& hop) const override;
  std::unique_ptr<Derivative> differentiate(const Hop& hop, const std::vector<bool>& requires_grad,
                                            bool create_graph) const override;
  LiftedDraws lift_draws(const Hop& hop) const override;
  std::vector<at::Tensor> call_with_grad(const HopPtr& hop, std::vector<at::Tensor>&& operands) const override;
};

/// What a scan's node holds besides operands and body. Of the last two, those that say nothing are left off.
struct ScanConstants {
  int64_t length = 0;
  bool reverse = false;  ///< takes the last slice first
  int64_t unroll = 1;    ///< how many steps are run as one program
  /// Note [Stacks with a front]: per stack, the carry whose initial value stands in the stack besides what the steps
  /// give, or -1. It stands where the step before the first would have put it: in front of the others, behind them in a
  /// reverse scan. Such a stack has a row more. If it is of the carry as it comes out, then without one end it is the
  /// carry as it comes out, and without the other the carry as it goes in, in one piece of memory.
  std::vector<int64_t> fronts = {};

  /// Of other operators that take a scan's body, the first two constants alone are a scan's.
  static ScanConstants of(const Hop& scan);
  static ScanConstants of(const std::vector<c10::IValue>& constants);
  std::vector<c10::IValue> constants() const;
  bool has_front(size_t stack) const { return stack < fronts.size() && fronts[stack] >= 0; }
};

/// A scan over `body`, whose first inputs are `num_carries` carries and `num_slices` slices.
HopPtr make_scan(std::shared_ptr<const Body> body, size_t num_carries, size_t num_slices,
                 const ScanConstants& constants);
inline HopPtr make_scan(std::shared_ptr<const Body> body, size_t num_carries, size_t num_slices, int64_t length,
                        bool reverse) {
  return make_scan(std::move(body), num_carries, num_slices, {length, reverse});
}

namespace detail {

/// A scan's constants, and how its operands and its body's inputs are divided.
struct ScanLayout : ScanConstants {
  explicit ScanLayout(const Hop& scan);
  size_t num_carries;
  size_t num_slices;
  size_t num_free;
  size_t num_stacks;
};

/// Makes the kernel of a scan.
HopFunction make_scan_kernel(const Hop& scan);

}  // namespace detail
}  // namespace diptych
