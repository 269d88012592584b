// Comparing what a kernel computed with what the interpreter does: DIPTYCH_CHECK=kernels.
#pragma once
#include <ATen/core/Tensor.h>

#include <vector>

#include "diptych/graph/graph.h"

namespace diptych::detail {

/// Compares the results of a kernel with the interpreter's. Integers and bools are equal; floats differ by no more than
/// their dtype's bound times the largest finite number among the inputs and the expected result, since a sum is rounded
/// in another order; infinities and NaN are in the same places.
/// Errors: InternalError names the nodes, the output, the position and both values of the first that differs, and the
/// files with the body and the inputs: `<name>.graph` and `<name>.safetensors` in the folder for temporary files.
void check_kernel(const Graph& body, const std::vector<at::Tensor>& inputs, const std::vector<at::Tensor>& got,
                  const std::vector<at::Tensor>& expected);

}  // namespace diptych::detail
