// LibTorch's own kernels for meta tensors, which a process with Python in it hides.
#pragma once
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace diptych::detail {

/// Note [Kernels for shapes]: `import torch` registers more than a thousand Meta kernels written in Python over those
/// of C++. They cost a hundred times as much, and do not take numbers that are wrapped as tensors of the meta device.
/// This finds the kernel that a program without Python would use; null if C++ has none, and Python's, if any, is the
/// only one. `with_composites`: whether a kernel for all devices will do. The pointer is good for the process where the
/// operator is native: LibTorch never takes its own registrations back.
const c10::KernelFunction* find_meta_kernel(const c10::OperatorHandle& op, bool with_composites);

/// Runs the Meta kernel of `op`, `kernel` if that is not null, on the arguments at the top of `stack`. False, with the
/// arguments in place, where it is a composite that calls something without one.
bool run_meta_kernel(const c10::OperatorHandle& op, const c10::KernelFunction* kernel, torch::jit::Stack* stack);

}  // namespace diptych::detail
