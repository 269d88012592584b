// What the results of a recorded call look like: the call on meta tensors.
#pragma once
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include "diptych/trace/operator_plan.h"
#include "diptych/trace/recorder.h"

namespace diptych::detail {

/// Exchanges the arguments that end the stack, stand-ins of `recorder` or tensors from outside, for the operator's
/// results as meta tensors. `device` is where the call runs, for kernels that must be run to learn a shape. Returns
/// false, with the arguments in place, if only a run on real values tells what an operator of a library returns, and
/// the recorder may ask for these.
/// Errors: UserError if no kernel tells the shape; whatever the operator throws for arguments that do not fit.
bool run_on_meta(Recorder& recorder, const c10::OperatorHandle& op, const OperatorPlan& plan, torch::jit::Stack* stack,
                 c10::Device device);

}  // namespace diptych::detail
