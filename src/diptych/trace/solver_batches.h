// Batches of linear systems that LibTorch's kernels mix up.
#pragma once
#include <ATen/core/stack.h>

namespace diptych::detail {

/// Changes the arguments that end the stack, those of aten.linalg_lu_solve: factors and pivots that are to be broadcast
/// are laid out for each batch of right sides. LibTorch 2.13 takes those of the first batch for others, where the
/// factors lie in columns, as it makes them. See TraceTrait::kMixesUpBatches.
void expand_factors(torch::jit::Stack* stack);

}  // namespace diptych::detail
