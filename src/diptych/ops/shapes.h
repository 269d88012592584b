// Shape functions: the metadata of an operator's outputs, for operators that have no C++ Meta kernel, whose Meta kernel
// disagrees with the CPU kernel, or whose Meta kernel makes tracing noticeably slower.
#pragma once
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <c10/util/DimVector.h>

namespace diptych::detail {

/// Replaces an operator's boxed arguments on the stack by its results. Every tensor argument is a meta tensor with the
/// real sizes, strides and dtype; the results are meta tensors with the sizes, strides and dtype of the CPU kernel's
/// results, and undefined tensors where it returns those. Returns false, with the stack untouched, where the operator's
/// own Meta kernel must be called instead. Requires: autograd and functionalization keys are excluded.
/// Errors: c10::Error where the arguments' shapes do not fit together.
using ShapeFunction = bool (*)(const c10::OperatorHandle&, c10::Stack&);

/// Returns the operator's shape function, or null if its Meta kernel is to be used. One hash look-up; callers that see
/// an operator often keep the answer. Threads: any.
ShapeFunction find_shape_function(const c10::OperatorHandle& op);

/// The metadata that a quick shape returns for an operator's one result.
struct ResultShape {
  c10::DimVector sizes;
  c10::DimVector strides;
  int64_t offset = 0;
  at::ScalarType dtype = at::kFloat;
  bool is_view_of_first = false;  ///< it shares the storage of the first argument; otherwise it is dense
};

/// A shape function that makes no tensor and asks tensors for sizes, strides and dtype only, so that the tensors need
/// not be meta tensors. Returns false where the shape function or the Meta kernel must be called; the result is then
/// unspecified.
using QuickShape = bool (*)(c10::ArrayRef<c10::IValue> arguments, ResultShape& result);

/// Returns the operator's quick shape, or null. The shape function of such an operator is made from it.
QuickShape find_quick_shape(const c10::OperatorHandle& op);

}  // namespace diptych::detail
