// LibTorch's own kernels for meta tensors, which torch's Python package hides.
#pragma once
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace diptych::detail {

/// Note [Kernels for shapes]: `import torch` registers more than a thousand Meta kernels written in Python over those
/// written in C++. They cost a hundred times as much, and do not take numbers that are wrapped as meta tensors. This
/// finds the kernel that a program without Python would use; null if there is none in C++. `with_composites`: also take
/// a kernel for all devices. For a native operator the pointer is valid as long as the process runs, since LibTorch
/// never takes its own registrations back.
const c10::KernelFunction* find_meta_kernel(const c10::OperatorHandle& op, bool with_composites);

/// Runs the Meta kernel of `op`, or `kernel` if that is not null, on the arguments at the top of `stack`. Returns
/// false, with the arguments in place, if it is a composite that calls an operator without a Meta kernel.
bool run_meta_kernel(const c10::OperatorHandle& op, const c10::KernelFunction* kernel, torch::jit::Stack* stack);

}  // namespace diptych::detail
