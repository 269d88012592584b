// Writes to elements that lie in one place in memory, or that another operand shares.
//
// Note [Overlapping writes]
// Eager refuses most writes to a tensor of which several elements lie in one place, as expand makes them, and to a
// tensor that partly shares memory with another operand. Each operator decides for itself whether it checks this, so it
// is called on an example with the same geometry. The graph is right for what operators accept here: a fill, which may
// write a place twice, and a write to elements that lie apart but were taken through a view whose elements did not.
// Functionalization would write these back through each view in turn, and add up elements that lie in one place.
// Instead the same elements are taken from the base by strides, each once, and the operator is called on those.
// Whatever else eager accepts depends on the order in which its kernels write, and is refused. ATen does not decide
// about operands with gaps and lets them pass; here the places of their elements decide.
#pragma once
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include "diptych/trace/operator_plan.h"
#include "diptych/trace/recorder.h"

namespace diptych::detail {

/// Throws what eager throws for a write that overlaps, and calls the operator on the same elements, taken by strides,
/// where functionalization can't write back through the views that were taken. Returns whether the operator was called.
/// See Note [Overlapping writes]. Requires: `op` writes to an argument.
/// Errors: UserError for writes whose result depends on the order in which a kernel writes.
bool write_by_strides(Recorder& recorder, const c10::OperatorHandle& op, const OperatorPlan& plan,
                      torch::jit::Stack* stack);

}  // namespace diptych::detail
