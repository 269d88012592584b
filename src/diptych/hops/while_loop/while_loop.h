// dp::while_loop: a loop whose number of steps is known only when it runs.
#pragma once
#include "diptych/hops/scan/scan.h"

namespace diptych {

/// Options of while_loop().
struct WhileOptions {
  /// If set, keeps the carry after every this many steps for the backward and runs the steps between again, instead of
  /// keeping residuals of every step.
  std::optional<int64_t> checkpoint_every = {};
};

namespace detail {

/// while_loop() on flat tensors.
std::vector<at::Tensor> while_loop_flat(const FlatFunction& condition, const FlatFunction& step, const Flattened& init,
                                        const WhileOptions& options);

/// The user's step, which must return a carry of the structure that it got.
template <class F>
struct CheckedWhileStep {
  F& function;
  const TreeSpec& spec;
  template <class Carry>
  Carry operator()(Carry& carry) {
    Carry next = function(carry);
    check_structure("while_loop", "the body's carry", spec, diptych::flatten(next, "carry").spec);
    return next;
  }
};

}  // namespace detail

/// Runs `carry = f(carry)` from `init` on for as long as condition(carry) holds, and returns the last carry. Both
/// functions run once, on stand-ins, when the loop is captured. They may capture tensors and modules. The loop is
/// differentiable in reverse to any order. Outside a capture, residuals are collected while it runs, so memory grows
/// with the number of steps; inside a capture, the loop is run again when its gradient is asked for.
/// options.checkpoint_every bounds that memory. `condition` returns one element, true where it is not zero. A carry
/// keeps its structure, sizes and dtype.
/// Where f changes its carry in place and returns it, `init` is left as the last carry.
/// Errors: UserError by path for a carry that changes its sizes or dtype, for a condition of another kind, for what the
/// condition changes in place, and for a carry that f changes and does not return; what they throw. Source:
/// jax.lax.while_loop.
template <class Condition, class F, class Carry>
Carry while_loop(Condition&& condition, F&& f, const Carry& init, const WhileOptions& options = {}) {
  const Flattened carry = diptych::flatten(init, "carry");
  detail::CheckedWhileStep<std::remove_reference_t<F>> step{f, carry.spec};
  std::shared_ptr<Carry> example;
  std::shared_ptr<at::Tensor> truth;
  const auto flat_condition = detail::make_flat<at::Tensor>(condition, truth, init);
  const auto flat_step = detail::make_flat<Carry>(step, example, init);
  return unflatten(Carry(init), detail::while_loop_flat(flat_condition, flat_step, carry, options));
}

}  // namespace diptych
