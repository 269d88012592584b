// Views by strides, which count from the start of a storage, recorded as views that count from their operand.
#pragma once
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include "diptych/trace/recorder.h"

namespace diptych::detail {

/// Note [Places of operands]
/// as_strided, as_strided_copy and as_strided_scatter take an offset from the start of their operand's storage. A graph
/// holds values, which need not lie where they lay in the trace: a residual or a hoisted value is a slice of a stack
/// when a loop's body reads it, and a program's result has a storage of its own. So an operand that the graph computes
/// is given first the part that the offset leads to, and then strides without an offset, which count from the operand's
/// first element; an operand that lacks some of these elements is replaced by what it is a view of. A primal lies where
/// the caller has it, and keeps the offset. Writes into parts become choices by element: see selected().

/// Changes such a call so that it counts from its operand. Returns true if it was recorded, as calls of other
/// operators, whose result is on the stack; false if the call that is on the stack is left to record.
/// Errors: UserError if a view of another dtype is asked for elements beside it.
bool count_from_operand(Recorder& recorder, const c10::OperatorHandle& op, torch::jit::Stack* stack);

}  // namespace diptych::detail
