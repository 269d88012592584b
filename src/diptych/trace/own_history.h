// What a stand-in is to autograd, where that is not what the graph says of its value.
#pragma once
#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>

#include "diptych/trace/operator_plan.h"
#include "diptych/trace/recorder.h"

namespace diptych::detail {

/// How many times this thread has met a tensor that reads or writes another one by its data: see
/// Note [Data of stand-ins].
uint64_t data_reads();

/// Returns `operand`; where it has no history, but its value has one in the graph, detach() of it.
/// Note [Data of stand-ins]: x.data has the values and the memory of x without its history, and no operator makes it.
/// The graph would read x, and whoever differentiates the graph would go on into its history. So an operator reads the
/// detach() of such an operand. One that it writes to or takes a view of stays what it is, for it may get a shape and a
/// history of its own; the write counts as one to a tensor with a history. Inside of transforms x.data is another
/// tensor than x.detach(): it keeps the history that outer levels see, and the function itself runs. Requires:
/// `operand` is undefined or of the trace.
at::Tensor with_own_history(Recorder& recorder, const at::Tensor& operand);

/// The same for the arguments of an operator, which end `stack`.
void read_own_histories(Recorder& recorder, const OperatorPlan& plan, torch::jit::Stack& stack);

/// Says in the graph that results of an operator have no history, where autograd gave them none: those of zeros_like().
void settle_histories(Recorder& recorder, const c10::OperatorHandle& op, const torch::jit::Stack& stack);

}  // namespace diptych::detail
