// Operators that run one of their bodies once: hop.cond, and hop.invoke, which has only one.
#pragma once
#include "diptych/hops/hop.h"

namespace diptych::detail {

/// Groups: the predicate, which chooses the body (hop.cond only); the arguments; then what each body captured. A body
/// takes the arguments and what it captured, and returns the results.
class BranchOperator : public HigherOrderOperator {
 public:
  /// A bool chooses the first body (true) or the second.
  static const BranchOperator& cond();
  static const BranchOperator& invoke();

  std::vector<TensorMeta> infer(const Hop& hop) const override;
  HopFunction compile(const Hop& hop) const override;
  std::unique_ptr<Derivative> differentiate(const Hop& hop, const std::vector<bool>& requires_grad,
                                            bool create_graph) const override;
  LiftedDraws lift_draws(const Hop& hop) const override;
  std::vector<Batched> call_batched(const HopPtr& hop, std::vector<Batched>&& operands,
                                    const detail::Batch& batch) const override;
  std::vector<Dual> call_dual(const HopPtr& hop, std::vector<Dual>&& operands) const override;

 protected:
  using HigherOrderOperator::HigherOrderOperator;
};

/// Makes the same operator, with the same attributes, over other bodies.
HopPtr with_bodies(const Hop& hop, std::vector<std::shared_ptr<const Body>> bodies, std::vector<size_t> groups);

/// Makes the call of one body.
HopPtr make_invoke(std::shared_ptr<const Body> body, size_t num_arguments);

/// How a branching hop's operands are divided.
struct BranchLayout {
  explicit BranchLayout(const Hop& hop);
  size_t num_choosers;  ///< 1 where there is a predicate
  size_t num_arguments;
  size_t num_results;
  std::vector<size_t> num_free;    ///< per body
  std::vector<size_t> first_free;  ///< per body, the position among the operands

  /// The operand that input `input` of body `body` takes.
  size_t operand(size_t body, size_t input) const {
    return input < num_arguments ? num_choosers + input : first_free[body] + input - num_arguments;
  }
};

}  // namespace diptych::detail
