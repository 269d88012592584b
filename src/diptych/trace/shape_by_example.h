// Shapes of operators that have neither a shape function nor a Meta kernel.
#pragma once
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace diptych::detail {

/// Runs `op` on tensors of zeros with the shapes of the meta tensors among the last arguments of `stack`, and leaves
/// meta tensors shaped like its results there. It costs what the kernel costs, so frequent operators get a shape
/// function. Random generators are left as they were. Errors: UserError names the operator if its kernel refuses zeros.
void run_shape_by_example(const c10::OperatorHandle& op, torch::jit::Stack* stack, c10::Device device);

}  // namespace diptych::detail
