// What a stand-in is to autograd, where that is not what the graph says of its value.
#pragma once
#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>

#include <utility>
#include <vector>

#include "diptych/trace/operator_plan.h"
#include "diptych/trace/recorder.h"

namespace diptych::detail {

/// Returns `operand`; where it has no history, but its value has one in the graph, detach() of it.
/// Note [Data of stand-ins]: x.data has the values and the memory of x without its history, and no operator makes it. The
/// graph would read x, and whoever differentiates the graph would go on into its history. So an operator is given the
/// detach() of such an operand, and memory that it writes to counts as that of a tensor with a history.
/// Requires: `operand` is undefined or of the trace.
at::Tensor with_own_history(Recorder& recorder, const at::Tensor& operand);

/// The same for the arguments of an operator, which end `stack`.
class OwnHistories {
 public:
  OwnHistories(Recorder& recorder, const OperatorPlan& plan, torch::jit::Stack& stack);
  /// Returns to the caller what he gave, where the operator returns an argument.
  void restore(torch::jit::Stack& stack) const;

 private:
  std::vector<std::pair<at::Tensor, at::Tensor>> exchanged_;  ///< what the operator gets, and what the caller gave
};

/// Says in the graph that results of an operator have no history, where autograd gave them none: those of zeros_like().
void settle_histories(Recorder& recorder, const c10::OperatorHandle& op, const torch::jit::Stack& stack);

}  // namespace diptych::detail
