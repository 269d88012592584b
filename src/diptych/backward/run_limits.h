// What keeps a backward run from being captured; autograd's engine then runs it.
#pragma once
#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/input_metadata.h>

namespace diptych::detail {

/// Returns why no run can be captured on this thread now, in a few words, or null. A transform, a dispatch mode or
/// forward-mode differentiation sees each operator that eager calls, and a graph would show it others.
const char* why_thread_is_not_plain();

/// Returns why a graph can't represent a tensor, or null. A graph knows sizes, strides, dtype and device; what a tensor
/// means beyond them (a batch of others, rows of several lengths, a Python class) is in its dispatch keys.
const char* why_not_plain(const at::Tensor& tensor);

/// Returns why a graph can't hold a gradient with this metadata, or null.
const char* why_not_plain(const torch::autograd::InputMetadata& expected);

}  // namespace diptych::detail
