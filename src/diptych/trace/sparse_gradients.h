// Gradients that are sparse tensors in eager.
//
// Note [Sparse gradients]: a graph holds plain tensors. A gradient that leaves a backward may still be sparse: the
// operator that makes it of plain tensors is a node, and nothing in the graph reads its result but the sum of the
// gradients of one tensor, which is made as autograd's engine makes it. While the backward is traced, the stand-in of
// such a gradient says that it is sparse, by which whatever else would read it is refused.
#pragma once
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include "diptych/trace/operator_plan.h"
#include "diptych/trace/recorder.h"

namespace diptych::detail {

/// Records a call that makes a sparse gradient in a backward, and exchanges the arguments that end the stack for its
/// result. Returns false, with the stack untouched, if this is no such call, or the backward is to be differentiated.
/// Errors: UserError if an argument is a sparse gradient, whatever the operator.
bool record_sparse_gradient(Recorder& recorder, const c10::OperatorHandle& op, const OperatorPlan& plan,
                            torch::jit::Stack* stack);

/// Returns the sum of what has arrived at a tensor so far and another gradient, either of which may be sparse.
/// Requires: both are defined; called in the trace of a backward.
at::Tensor add_gradients(const at::Tensor& sum, const at::Tensor& gradient);

}  // namespace diptych::detail
