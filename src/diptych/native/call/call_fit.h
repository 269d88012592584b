// Whether a call's tensors are what code was made for.
#pragma once
#include <ATen/core/Tensor.h>

#include <vector>

#include "diptych/native/call/call_shapes.h"

namespace diptych::detail {

/// Copies inputs whose strides differ from those of `shapes`. Returns whether code can take the inputs: plain CPU
/// tensors of these dtypes and sizes, in memory of their own. Inputs are what they were if it can't, but for their
/// strides.
bool make_fit(const std::vector<CallShapes::Tensor>& shapes, std::vector<at::Tensor>& inputs);

}  // namespace diptych::detail
