// hop.vjp: the gradients of a graph, found by running it under autograd when the gradient is asked for. It
// differentiates functions whose backward can't be written down before they run, such as a loop of unknown length.
#pragma once
#include "diptych/hops/hop.h"

namespace diptych::detail {

/// Groups: the inputs of the body, the tangents of its results. `wanted`: per input whether its gradient is wanted;
/// `given`: per result whether its tangent is among the operands. Results: the wanted gradients, zeros where nothing
/// flows.
class VjpOperator final : public HigherOrderOperator {
 public:
  VjpOperator()
      : HigherOrderOperator("vjp(Tensor[] inputs, Tensor[] tangents, bool[] wanted, bool[] given)", {"forward"}) {}
  static const VjpOperator& get();

  std::vector<TensorMeta> infer(const Hop& hop) const override;
  HopFunction compile(const Hop& hop) const override;
  std::unique_ptr<Derivative> differentiate(const Hop& hop, const std::vector<bool>& requires_grad,
                                            bool create_graph) const override;
  std::vector<at::Tensor> call_with_grad(const HopPtr& hop, std::vector<at::Tensor>&& operands) const override;
  std::vector<Batched> call_batched(const HopPtr& hop, std::vector<Batched>&& operands,
                                    const detail::Batch& batch) const override;
  std::vector<Dual> call_dual(const HopPtr& hop, std::vector<Dual>&& operands) const override;
};

/// What depends on what in a hop.
struct Reach {
  std::vector<bool> results;  ///< those that may require grad
  /// The operands that a gradient may reach when the tangents of the results marked in `given` are given.
  std::function<std::vector<bool>(const std::vector<bool>& given)> operands;
};

/// Returns a derivative that saves the operands alone and runs the hop again in its backward, by hop.vjp. `operands`:
/// their metadata. `find_reach`: if it is empty, every result counts as depending on every operand.
/// Errors: UserError where a body has a backward that its graph does not show.
std::unique_ptr<Derivative> replay_derivative(const Hop& hop, const std::vector<TensorMeta>& operands,
                                              const std::vector<bool>& requires_grad,
                                              const std::function<Reach()>& find_reach = {});

}  // namespace diptych::detail
