// hop.while_loop: runs a body for as long as a condition holds.
#pragma once
#include "diptych/hops/hop.h"

namespace diptych::detail {

/// Groups: the first carries, what the condition captured, what the body captured. Bodies: the condition, which takes
/// carries and returns one bool, and the step, which takes carries and returns carries. `checkpoint_every`: a carry is
/// kept for the backward after every this many steps; 0 keeps residuals of every step. Results: the last carries.
class WhileOperator final : public HigherOrderOperator {
 public:
  WhileOperator()
      : HigherOrderOperator(
            "while_loop(Tensor[] init, Tensor[] condition_free, Tensor[] step_free, int checkpoint_every=0)",
            {"condition", "step"}) {}
  static const WhileOperator& get();

  std::vector<TensorMeta> infer(const Hop& hop) const override;
  HopFunction compile(const Hop& hop) const override;
  /// Serves captures, where the number of steps is not known: the backward runs the loop again.
  std::unique_ptr<Derivative> differentiate(const Hop& hop, const std::vector<bool>& requires_grad,
                                            bool create_graph) const override;
  /// Serves calls outside a capture: collects residuals while the loop runs, and then is a scan of as many steps.
  std::vector<at::Tensor> call_with_grad(const HopPtr& hop, std::vector<at::Tensor>&& operands) const override;
  /// A batched condition runs the loop until it holds for no element; elements that are done keep their carries.
  std::vector<Batched> call_batched(const HopPtr& hop, std::vector<Batched>&& operands,
                                    const detail::Batch& batch) const override;
  std::vector<Dual> call_dual(const HopPtr& hop, std::vector<Dual>&& operands) const override;
};

}  // namespace diptych::detail
