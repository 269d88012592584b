// hop.custom_vjp: a function whose backward the user has written.
#pragma once
#include "diptych/hops/hop.h"

namespace diptych::detail {

/// Groups: arguments, what fwd captured, what bwd captured. Bodies: fwd, which returns results, then residuals; bwd,
/// which takes residuals, then one tangent per result, and returns gradients. `num_results`: how many of fwd's outputs
/// are results; `copies`: how many times the hop returns the residuals after them; `has_gradient`: per argument,
/// whether bwd returns its gradient.
class CustomVjpOperator final : public HigherOrderOperator {
 public:
  CustomVjpOperator()
      : HigherOrderOperator(
            "custom_vjp(Tensor[] args, Tensor[] fwd_free, Tensor[] bwd_free, int num_results, int "
            "copies=0, bool[] has_gradient)",
            {"fwd", "bwd"}) {}
  static const CustomVjpOperator& get();

  std::vector<TensorMeta> infer(const Hop& hop) const override;
  HopFunction compile(const Hop& hop) const override;
  std::unique_ptr<Derivative> differentiate(const Hop& hop, const std::vector<bool>& requires_grad,
                                            bool create_graph) const override;
  LiftedDraws lift_draws(const Hop& hop) const override;
  std::vector<Batched> call_batched(const HopPtr& hop, std::vector<Batched>&& operands,
                                    const detail::Batch& batch) const override;
};

/// How a custom_vjp hop's operands and outputs are divided.
struct CustomLayout {
  explicit CustomLayout(const Hop& hop);
  size_t num_arguments;
  size_t num_free;  ///< captured by fwd
  size_t num_bwd_free;
  size_t num_results;  ///< that have tangents
  size_t copies;       ///< of the residuals
  std::vector<bool> has_gradient;

  std::vector<size_t> groups() const { return {num_arguments, num_free, num_bwd_free}; }
  std::vector<HopAttribute> attributes() const;
};

}  // namespace diptych::detail
