// A pair as a function that eager PyTorch differentiates: what was captured once, perhaps by another program, is called
// in place of the code that it was captured from.
#pragma once
#include <vector>

#include "diptych/pair/pair.h"

namespace diptych {

/// Calls the captured function on its flattened arguments and returns its outputs. Values are those of the forward
/// graph, gradients those of the backward graph; a second derivative is that of the graphs' operators. Inputs that the
/// function changes in place are changed; those that it changes under no_grad keep their history. An output that is an
/// unchanged input is returned as that input, and one that is an earlier output as that output. Other outputs share no
/// memory with inputs or each other, with or without gradients, so that a view comes back as a copy (see
/// signature.aliases()): the gradient of a view is the backward graph's, which need not be that of a view. Gradients
/// reach the inputs that required grad when the pair was captured.
///
/// In eager, each differentiable call looks at the graphs again; compiled, a call costs what it costs for the function:
///
///   const auto loss = dp::aot_function([pair](const std::vector<at::Tensor>& arguments) {
///     return dp::call_pair(pair, arguments)[0];
///   });
///
/// Errors: UserError for a wrong number of arguments, and one that names an argument that the pair was not captured
/// for.
std::vector<at::Tensor> call_pair(const Pair& pair, std::vector<at::Tensor> arguments);

}  // namespace diptych
