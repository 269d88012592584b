// A stand-in for tracing that has any size and takes no memory.
#pragma once
#include <ATen/core/Tensor.h>

namespace diptych::detail {

/// Returns a tensor with the dtype, device, offset and requires_grad of `like`, and with the given sizes and strides,
/// as many as it has dimensions. Its storage has no bytes, so its elements must not be read.
at::Tensor hollow_like(const at::Tensor& like, at::IntArrayRef sizes, at::IntArrayRef strides);

}  // namespace diptych::detail
