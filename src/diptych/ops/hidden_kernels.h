// LibTorch's own kernels for meta tensors, which torch's Python package hides.
#pragma once
#include <ATen/core/dispatch/Dispatcher.h>

namespace diptych::detail {

/// Note [Kernels for shapes]: `import torch` registers more than a thousand Meta kernels written in Python over those
/// written in C++. They cost a hundred times as much, and do not take numbers that are wrapped as meta tensors. This
/// finds the kernel that a program without Python would use; null if there is none in C++. `with_composites`: also take
/// a kernel for all devices. For a native operator the pointer is valid as long as the process runs, since LibTorch
/// never takes its own registrations back.
const c10::KernelFunction* find_meta_kernel(const c10::OperatorHandle& op, bool with_composites);

}  // namespace diptych::detail
