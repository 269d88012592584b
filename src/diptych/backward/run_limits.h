// What keeps a backward run from being captured. Autograd's engine runs it then.
#pragma once
#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/input_metadata.h>

namespace diptych::detail {

/// Why no run is captured on this thread now, in a few words, or null: a transform, a dispatch mode or forward-mode
/// differentiation is under way, which sees each operator that eager calls, and another graph would show it others.
const char* why_thread_is_not_plain();

/// Why a graph can't stand for a tensor, or null. A graph knows sizes, strides, dtype and device; what a tensor means
/// beyond them (a batch of others, rows of several lengths, a class of Python's) is in its dispatch keys.
const char* why_not_plain(const at::Tensor& tensor);

/// Why a graph can't hold a gradient that has to be like this, or null.
const char* why_not_plain(const torch::autograd::InputMetadata& expected);

}  // namespace diptych::detail
