// Calling a hop: in a capture or outside, with autograd or without.
#pragma once
#include "diptych/hops/hop.h"

namespace diptych {

/// Calls a hop: records it inside a capture, runs it outside, and takes part in autograd either way. Real tensors met
/// inside a capture become its free variables. Requires: as many operands as the hop has.
std::vector<at::Tensor> call(const HopPtr& hop, std::vector<at::Tensor> operands);

namespace detail {

/// A call that a derivative starts from again, with residuals that have a history: see Note [Differentiating a hop].
class CalledAgain final : public SavedCall {
 public:
  CalledAgain(std::vector<at::Tensor> operands, std::vector<at::Tensor> residuals)
      : operands_(std::move(operands)), residuals_(std::move(residuals)) {}
  at::Tensor operand(size_t index) const override { return operands_.at(index); }
  at::Tensor residual(size_t index) const override { return residuals_.at(index); }

 private:
  std::vector<at::Tensor> operands_;
  std::vector<at::Tensor> residuals_;
};

/// Whether autograd records a call of `hop` on these operands.
bool records_gradients(const Hop& hop, const std::vector<at::Tensor>& operands);

/// Calls a hop without autograd. `requires_grad`: what a capture records for the first results.
std::vector<at::Tensor> call_below_autograd(const Hop& hop, std::vector<at::Tensor> operands,
                                            const std::vector<bool>& requires_grad = {});

/// The default of HigherOrderOperator::call_with_grad(): lifts draws out, runs the forward of the hop's derivative and
/// attaches an autograd node to the results.
std::vector<at::Tensor> call_by_derivative(const HopPtr& hop, std::vector<at::Tensor>&& operands);

/// Gives `results` the history of a call of `hop` on `operands`, whose forward, or its equivalent, has run and returned
/// `residuals`. Returns the results.
std::vector<at::Tensor> attach_history(const HopPtr& hop, const std::vector<at::Tensor>& operands,
                                       std::vector<at::Tensor> results, const std::vector<at::Tensor>& residuals);

}  // namespace detail
}  // namespace diptych
