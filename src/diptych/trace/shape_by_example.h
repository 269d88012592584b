// Shapes of operators that have neither a shape function nor a Meta kernel.
#pragma once
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace diptych::detail {

/// Runs `op` on tensors of zeros with the shapes of the meta tensors among the arguments that end the stack, and
/// replaces the arguments by meta tensors with the shapes of the results. It costs as much as the kernel, so frequent
/// operators have a shape function. The state of random generators does not change. Errors: UserError names the
/// operator if its kernel refuses zeros.
void run_shape_by_example(const c10::OperatorHandle& op, torch::jit::Stack* stack, c10::Device device);

}  // namespace diptych::detail
