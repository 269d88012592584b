// Examples for tracing a function whose real arguments do not exist yet, such as a step's slices in the body of a scan.
#pragma once
#include <ATen/core/Tensor.h>

#include "diptych/graph/tensor_meta.h"

namespace diptych {

/// A tensor without data that looks as `meta` says and is of no trace: JointCapture takes it as an argument. Where it
/// requires grad it is no leaf, so that a function which changes it in place is told so by the capture.
at::Tensor make_placeholder(const TensorMeta& meta);

namespace detail {
/// Shares everything with `leaf` but has a grad_fn that hands gradients on.
at::Tensor make_non_leaf(const at::Tensor& leaf);
}  // namespace detail

}  // namespace diptych
