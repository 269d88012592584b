// What eager's kernel refuses of a call, asked of the kernel itself: it runs on an example, tensors of the dtypes and
// sizes of the call that hold zeros or ones.
#pragma once
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include "diptych/trace/operator_plan.h"

namespace diptych::detail {

/// Throws what eager's kernel throws about the dtypes of the arguments that end the stack, stand-ins or real tensors of
/// the CPU. Kernels for shapes take more dtypes than kernels do. Each combination of dtypes and ranks is asked about
/// once in a process, but none without out= whose operands are all float or all double: every kernel takes these.
/// Threads: any.
void refuse_dtypes_as_eager(const c10::OperatorHandle& op, const OperatorPlan& plan, const torch::jit::Stack& stack);

/// Whether eager's kernel takes arguments that a kernel for shapes has refused; false where it can't be asked. Throws
/// what eager's kernel throws about them, which may be of another class and in other words.
bool is_taken_by_eager(const c10::OperatorHandle& op, const OperatorPlan& plan, const torch::jit::Stack& arguments);

}  // namespace diptych::detail
