// What a graph says of its values against the tensors of a run: a call that brings others than the graph was made for
// is found before a kernel reads memory that is not there.
#pragma once
#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <vector>

#include "diptych/graph/graph.h"

namespace diptych::detail {

/// What differs between a tensor and what the graph says of it, in words; empty if nothing does. Number of elements
/// along each dimension, dtype and device count; strides do not, nor is anything said of a tensor that is not strided.
std::string difference(const TensorMeta& expected, const at::Tensor& tensor,
                       const std::map<std::string, int64_t>& symbols);

/// Compares the tensors that a graph is called with by code of Diptych's own; undefined ones stand for tangents that
/// are not there. Does nothing unless checks_calls(). Errors: InternalError names the graph, the input and the
/// difference.
void check_call(const Graph& graph, const std::vector<at::Tensor>& inputs);

}  // namespace diptych::detail
