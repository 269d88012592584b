// hop.scan: runs a body once per slice, a carry going from step to step.
#pragma once
#include "diptych/hops/hop.h"

namespace diptych {

/// Groups: the first carries, the tensors that are sliced along their first dimension, what every step reads alike.
/// Constants: length, whether slices are taken last to first. The body takes carries, slices and the rest, and gives
/// the next carries, then what is stacked. Results: the last carries, the stacks.
class ScanOperator final : public HigherOrderOperator {
 public:
  ScanOperator() : HigherOrderOperator("scan", 1) {}
  static const ScanOperator& get();

  std::vector<TensorMeta> infer(const Hop& hop) const override;
  HopFunction compile(const Hop& hop) const override;
  std::unique_ptr<Derivative> differentiate(const Hop& hop, const std::vector<bool>& requires_grad,
                                            bool create_graph) const override;
  LiftedDraws lift_draws(const Hop& hop) const override;
};

/// A scan of `length` steps over `body`, whose first inputs are `num_carries` carries and `num_slices` slices.
HopPtr make_scan(std::shared_ptr<const Body> body, size_t num_carries, size_t num_slices, int64_t length, bool reverse);

namespace detail {

/// How a scan's operands and its body's inputs are divided.
struct ScanLayout {
  explicit ScanLayout(const Hop& scan);
  size_t num_carries;
  size_t num_slices;
  size_t num_free;
  size_t num_stacks;
  int64_t length;
  bool reverse;
};

}  // namespace detail
}  // namespace diptych
