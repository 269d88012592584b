// Operators of libraries that return numbers, beside tensors or alone.
#pragma once
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include "diptych/trace/operator_plan.h"

namespace diptych::detail {

class Recorder;

/// Records a call of a library's operator that returns numbers as one of its form that returns tensors, where values
/// are known, and exchanges the arguments that end the stack for the results; the numbers are asked for. Returns
/// whether it did.
///
///   Note [Numbers of libraries]. A fake kernel is not asked: of the numbers that it returns nothing is checked
///   anywhere, and some return a mark. The run that gives the numbers is the one that eager has; where values are not
///   known, the number of a fake kernel is all there is, and is taken.
bool record_numbers(Recorder& recorder, const c10::OperatorHandle& op, const OperatorPlan& plan,
                    torch::jit::Stack* stack);

/// Refuses a call of such an operator where values are not known and no fake kernel tells the numbers.
void refuse_unknown_numbers(const c10::OperatorHandle& op, const OperatorPlan& plan);

}  // namespace diptych::detail
