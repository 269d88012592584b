// hop.scan: runs a body once per slice, a carry going from step to step.
#pragma once
#include "diptych/hops/hop.h"
#include "diptych/ops/scan_nodes.h"

namespace diptych {

/// Groups: `init`, the first carries; `xs`, the tensors that are sliced along their first dimension; `free`, the
/// tensors that every step reads whole. Attributes: those of ScanAttributes. The body takes carries, slices and free
/// operands, and returns the next carries, then what is stacked. Results: the last carries, the stacks.
class ScanOperator final : public HigherOrderOperator {
 public:
  ScanOperator() : HigherOrderOperator(detail::scan_schema()) {}
  static const ScanOperator& get();

  std::vector<TensorMeta> infer(const Hop& hop) const override;
  HopFunction compile(const Hop& hop) const override;
  std::unique_ptr<Derivative> differentiate(const Hop& hop, const std::vector<bool>& requires_grad,
                                            bool create_graph) const override;
  LiftedDraws lift_draws(const Hop& hop) const override;
  std::vector<at::Tensor> call_with_grad(const HopPtr& hop, std::vector<at::Tensor>&& operands) const override;
  std::vector<Batched> call_batched(const HopPtr& hop, std::vector<Batched>&& operands,
                                    const detail::Batch& batch) const override;
  std::vector<Dual> call_dual(const HopPtr& hop, std::vector<Dual>&& operands) const override;
};

/// Makes a scan over `body`, whose first inputs are `num_carries` carries and `num_slices` slices.
HopPtr make_scan(std::shared_ptr<const Body> body, size_t num_carries, size_t num_slices,
                 const detail::ScanAttributes& attributes);
inline HopPtr make_scan(std::shared_ptr<const Body> body, size_t num_carries, size_t num_slices, int64_t length,
                        bool reverse) {
  return make_scan(std::move(body), num_carries, num_slices, {length, reverse});
}

namespace detail {

/// A scan's attributes, and how its operands and its body's inputs are divided. It also describes other operators with
/// a scan's groups, `length`, `reverse` and body.
struct ScanLayout : ScanAttributes {
  explicit ScanLayout(const Hop& scan);
  size_t num_carries;
  size_t num_slices;
  size_t num_free;
  size_t num_stacks;
};

}  // namespace detail
}  // namespace diptych
