// A graph does not depend on the default dtype of the process, which may be another one when it runs.
#pragma once
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include "diptych/trace/operator_plan.h"
#include "diptych/trace/recorder.h"

namespace diptych::detail {

/// Writes the dtype of its result into a node that makes a tensor of nothing and was not given one.
void name_dtype(const OperatorPlan& plan, at::ScalarType result, Node& node);

/// Exchanges whole numbers among the tensors that end the stack for numbers of the default dtype, where the operator
/// would convert them to it and it is not the usual one.
void cast_whole_numbers(Recorder& recorder, const c10::OperatorHandle& op, const OperatorPlan& plan,
                        torch::jit::Stack* stack);

}  // namespace diptych::detail
