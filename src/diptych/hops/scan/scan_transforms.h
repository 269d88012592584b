// Rules of Note [Transformed hops] for scans: a scan of batches, and a scan of tensors with tangents.
#pragma once
#include "diptych/hops/scan/scan_operator.h"

namespace diptych::detail {

/// Makes the operator over another body, with other numbers of carries and slices.
using MakeScan = std::function<HopPtr(std::shared_ptr<const Body> body, size_t num_carries, size_t num_slices)>;

/// The rules of an operator with a scan's groups and results, which may return stacks of carries after them, each a
/// row for each carry. `make` makes the operator without Note [Stacks with a front].
std::vector<Batched> scan_batches(const HopPtr& hop, std::vector<Batched>&& operands, const Batch& batch,
                                  const MakeScan& make);
std::vector<Dual> scan_duals(const HopPtr& hop, std::vector<Dual>&& operands, const MakeScan& make);

}  // namespace diptych::detail
