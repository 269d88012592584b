// A backward() that the traced function calls itself.
//
// Note [A backward inside]: a function may compute a loss and call backward() on it, which adds to .grad of leaves from
// outside. In a trace the engine runs over the stand-ins, so the gradients arrive in .grad of those, recorded like all
// else. They leave the graph as outputs behind the function's own, and each call hands them to autograd's accumulators
// of the real leaves. What else the function computes does not see them: one that reads .grad, or whose leaves have
// hooks, is run itself. Who reads .grad is known where a binding watches the function; C++ refuses a backward() inside.
#pragma once
#include <ATen/core/Tensor.h>

#include <vector>

#include "diptych/autodiff/flat_function.h"
#include "diptych/trace/recorder.h"

namespace diptych::detail {

/// Moves the gradients that the traced function has accumulated to the end of `result`; returns the primals that they
/// belong to, in that order. Throws TransformMet where only the function itself gives eager's .grad: a gradient with a
/// history, one of a tensor that is no leaf, a leaf with hooks.
std::vector<size_t> take_accumulated(const Recorder& recorder, FlatResult& result);

/// Whether the traced function has accumulated a gradient.
bool has_accumulated(const Recorder& recorder);

/// Errors: UserError if the traced function has accumulated a gradient.
void check_nothing_accumulated(const Recorder& recorder);

/// Refuses results that the function makes and that have a .grad or hooks, which the tensors that a graph makes lack:
/// throws TransformMet if the function may be run itself. Errors: UserError if not.
void check_own_leaves(const Recorder& recorder, const FlatResult& result, bool may_give_up);

/// Whether autograd calls a hook where a gradient arrives at a leaf.
bool has_gradient_hooks(const at::Tensor& leaf);

/// Adds a gradient to .grad of a leaf as autograd does: stored if it is the first, else added in place.
void accumulate(const at::Tensor& leaf, at::Tensor gradient);

}  // namespace diptych::detail
