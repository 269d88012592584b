// dp::spec: a tensor to capture by, of which only the type is there.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

namespace diptych {

/// Returns a contiguous tensor of these sizes, without memory, for captures: capture(f, spec({8, 16}, at::kFloat,
/// at::kCUDA)). Its device need not be there: a device type of which this machine has none gets a device guard that
/// does nothing, for as long as the program runs. set_requires_grad(true) makes it an argument that gets a gradient.
/// Errors: UserError for a negative size; a c10::Error that says "a spec has no elements" for whoever reads or writes
/// its memory, outside of a capture. Source: jax.ShapeDtypeStruct.
at::Tensor spec(at::IntArrayRef sizes, at::ScalarType dtype = at::kFloat, at::Device device = at::kCPU);

/// Returns the spec of `like`, which may be a meta tensor: its sizes, strides, dtype and requires_grad, on `device`.
at::Tensor spec_like(const at::Tensor& like, at::Device device);

}  // namespace diptych
