// Examples for tracing a function whose real arguments do not exist yet, such as the slices for the body of a scan.
#pragma once
#include <ATen/core/Tensor.h>

#include "diptych/graph/tensor_meta.h"

namespace diptych::detail {

/// Returns a stand-in of no trace, without data, that looks as `meta` says; JointCapture takes it as an argument. If it
/// requires grad it is not a leaf, so that the capture reports a function that changes it in place.
at::Tensor make_placeholder(const TensorMeta& meta);

/// Returns a tensor that shares everything with `leaf`, and has a grad_fn that passes gradients on to it.
at::Tensor make_non_leaf(const at::Tensor& leaf);

}  // namespace diptych::detail
