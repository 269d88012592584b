// hop.blocked_scan: a scan that is run some steps at a time, so that what is computed for many steps at once stays in
// the caches.
#pragma once
#include "diptych/hops/scan/scan_operator.h"

namespace diptych::detail {

/// Groups: as hop.scan's. The body takes carries, `block` slices of each stack at a time and free operands, and returns
/// the next carries and `block` rows of each stack. Optimization makes it from hop.scan once everything has been
/// differentiated.
class BlockedScanOperator final : public HigherOrderOperator {
 public:
  BlockedScanOperator() : HigherOrderOperator(blocked_scan_schema()) {}
  static const BlockedScanOperator& get();

  std::vector<TensorMeta> infer(const Hop& hop) const override;
  HopFunction compile(const Hop& hop) const override;
  /// Calls the body once per block.
  std::vector<at::Tensor> call_with_grad(const HopPtr& hop, std::vector<at::Tensor>&& operands) const override;
};

}  // namespace diptych::detail
