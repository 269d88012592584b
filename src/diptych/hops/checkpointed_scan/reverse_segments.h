// hop.reverse_segments: the backward of a checkpointed scan.
#pragma once
#include "diptych/hops/hop.h"

namespace diptych::detail {

/// Groups: the first carries, the stacks of kept carries, slices and free operands of the forward; the gradients of the
/// last carries, followed by the first sums; the tangents of stacks. Bodies: the step's carries alone, the step with
/// residuals, the backward step. Attributes: those of the forward, and the GradientSource of each slice and free
/// operand of the backward step.
class ReverseSegmentsOperator final : public HigherOrderOperator {
 public:
  ReverseSegmentsOperator()
      : HigherOrderOperator(
            "reverse_segments(Tensor[] init, Tensor[] kept, Tensor[] xs, Tensor[] free, Tensor[] "
            "running, Tensor[] tangents, int length, bool reverse, int segment, int saved_carries, "
            "int[] slice_sources, int[] free_sources)",
            {"advance", "forward", "backward"}) {}
  static const ReverseSegmentsOperator& get();

  std::vector<TensorMeta> infer(const Hop& hop) const override;
  HopFunction compile(const Hop& hop) const override;
  /// Always throws: the second derivative of a checkpointed scan is that of a plain one. Errors: InternalError.
  std::unique_ptr<Derivative> differentiate(const Hop& hop, const std::vector<bool>& requires_grad,
                                            bool create_graph) const override;
};

}  // namespace diptych::detail
