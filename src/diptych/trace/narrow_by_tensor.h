// narrow() from a start that is a tensor, where nobody can say its value.
#pragma once
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include "diptych/trace/recorder.h"

namespace diptych::detail {

/// If `op` is narrow() with a tensor for the start, in a trace that can't ask for its value, takes the part by indices
/// and returns true: see Note [Parts]. A start out of range is an index out of range when the graph runs. Requires: the
/// arguments, which end the stack, are stand-ins.
bool narrow_by_tensor(Recorder& recorder, const c10::OperatorHandle& op, torch::jit::Stack* stack);

}  // namespace diptych::detail
