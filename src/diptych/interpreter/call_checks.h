// Compares what a graph says of its values with the tensors of a run: a call with tensors that the graph was not made
// for is found before a kernel reads memory out of bounds.
#pragma once
#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <vector>

#include "diptych/graph/graph.h"

namespace diptych::detail {

/// Describes how a tensor differs from what the graph says of it; empty if it does not. Sizes, dtype and device count;
/// strides do not, and nothing is said of a tensor that is not strided.
std::string difference(const TensorMeta& expected, const at::Tensor& tensor,
                       const std::map<std::string, int64_t>& symbols);

/// Checks the tensors with which Diptych's own code calls a graph; undefined ones are tangents that are not given. Does
/// nothing unless checks_calls(). Errors: InternalError names the graph, the input and the difference.
void check_call(const Graph& graph, const std::vector<at::Tensor>& inputs);

}  // namespace diptych::detail
