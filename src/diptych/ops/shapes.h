// Shape functions: what the outputs of an operator look like, for the operators that have no C++ Meta kernel, whose
// Meta kernel disagrees with the CPU kernel, or whose Meta kernel is slow enough to be felt while tracing.
#pragma once
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace diptych {

/// Replaces an operator's boxed arguments on the stack by its results. Every tensor argument is a meta tensor with the
/// real sizes, strides and dtype; the results are meta tensors with the sizes, strides and dtype that the CPU kernel
/// would give, and undefined tensors where it gives those. Returns false, with the stack untouched, where the
/// operator's own Meta kernel must be asked instead. Requires: autograd and functionalization keys are excluded.
/// Errors: c10::Error where the arguments' shapes do not fit together.
using ShapeFunction = bool (*)(const c10::OperatorHandle&, c10::Stack&);

/// Returns the operator's shape function, or null where its Meta kernel is the rule. One hash lookup; callers that see
/// an operator again and again keep the answer. Threads: any.
ShapeFunction find_shape_function(const c10::OperatorHandle& op);

}  // namespace diptych
