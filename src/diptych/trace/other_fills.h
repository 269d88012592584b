// Fills by another operator, where ATen has no derivative of the one at hand, or not for all arguments.
#pragma once
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace diptych::detail {

/// Calls where() with a mask of the indices in place of index_fill by a tensor of the same dtype, and returns whether
/// it did: of another dtype the operator itself refuses values that do not fit. Both compute the same. But autograd's
/// formula for the value asks which indices there are, which a graph can't, and LibTorch 2.13 fills every element of a
/// batch with the last one's value where the values alone are batched. The backward of trace() is such a call.
/// Requires: tensors among the arguments are of the trace.
bool fill_by_mask(const c10::OperatorHandle& op, torch::jit::Stack* stack);

/// Calls fill_() in place of zero_() of complex numbers, and returns whether it did: the graph holds the form that
/// returns a new tensor, and that of zero_() has no derivative for these.
bool zero_by_fill(const c10::OperatorHandle& op, torch::jit::Stack* stack);

}  // namespace diptych::detail
