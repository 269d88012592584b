// The kernels of kFakeKey, one for each operator: see Note [The recording key].
#pragma once
#include <ATen/core/boxing/KernelFunction.h>

namespace diptych::detail {

/// Gives `kernel` to each operator at kFakeKey, also to those that libraries define later. Operators that are only made
/// of others (CompositeImplicitAutograd) get none, but for forms of libraries' operators: they are taken apart before,
/// and a kernel among the backends' would be ambiguous to autograd.
void register_recording_kernels(const c10::KernelFunction& kernel);

/// Gives operators that were defined since the last call their kernels. To be called before a trace begins, and before
/// an operator is called in it for the first time, since a function may define operators.
void register_new_recording_kernels();

}  // namespace diptych::detail
