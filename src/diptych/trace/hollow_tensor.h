// A tensor of any size that takes no memory, to trace with.
#pragma once
#include <ATen/core/Tensor.h>

namespace diptych::detail {

/// A tensor with the dtype, device, offset and requires_grad of `like` and other sizes and strides (of as many
/// dimensions), over a storage of no bytes: its elements must not be read.
at::Tensor hollow_like(const at::Tensor& like, at::IntArrayRef sizes, at::IntArrayRef strides);

}  // namespace diptych::detail
