// Running a graph once, for passes that need a value.
#pragma once
#include <ATen/core/Tensor.h>

#include <vector>

#include "diptych/graph/graph.h"

namespace diptych::detail {

/// Runs a graph without inputs, below autograd. Errors: as Program.
std::vector<at::Tensor> evaluate(const Graph& graph);

}  // namespace diptych::detail
