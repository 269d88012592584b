// Shape functions: what the outputs of an operator look like, for the operators that have no C++ Meta kernel, whose
// Meta kernel disagrees with the CPU kernel, or whose Meta kernel is slow enough to be felt while tracing.
#pragma once
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <c10/util/DimVector.h>

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

/// What a quick shape says of an operator's one result.
struct ResultShape {
  c10::DimVector sizes;
  c10::DimVector strides;
  int64_t offset = 0;
  at::ScalarType dtype = at::kFloat;
  bool is_view_of_first = false;  ///< it shares the storage of the first argument; otherwise it is dense
};

/// A shape function that makes no tensor and asks tensors for sizes, strides and dtype only, so that the tensors need
/// not be meta tensors. Returns false where the shape function or the Meta kernel must be asked; the result is
/// undefined then.
using QuickShape = bool (*)(c10::ArrayRef<c10::IValue> arguments, ResultShape& result);

/// Returns the operator's quick shape, or null. The shape function of such an operator is made of it.
QuickShape find_quick_shape(const c10::OperatorHandle& op);

}  // namespace diptych
