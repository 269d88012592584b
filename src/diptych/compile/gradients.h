// dp::grad and dp::value_and_grad: functions that return gradients, compiled with their forward into one graph.
#pragma once
#include <torch/csrc/autograd/autograd.h>

#include "diptych/compile/aot.h"

namespace diptych {
namespace detail {

/// The first argument's tensors as inputs to differentiate with respect to, and what came of it.
std::vector<at::Tensor> differentiation_inputs(const Flattened& flat);
/// Gradients of the scalar `value`, zeros where nothing flows, further differentiable if the inputs are.
/// Errors: UserError if `value` is no floating-point scalar.
std::vector<at::Tensor> scalar_gradients(const at::Tensor& value, const std::vector<at::Tensor>& inputs,
                                         const std::vector<at::Tensor>& originals);

template <class F>
struct ValueAndGrad {
  F function;
  template <class First, class... Rest>
  auto operator()(First& first, Rest&... rest) {
    using Value = std::decay_t<decltype(function(first, rest...))>;
    static_assert(std::is_same_v<Value, at::Tensor>,
                  "grad and value_and_grad take a function that returns one tensor.");
    const c10::AutoGradMode record(true);
    const Flattened flat = flatten(first, argument_name({}, 0));
    const auto inputs = differentiation_inputs(flat);
    First argument = unflatten(First(first), inputs);
    at::Tensor value = function(argument, rest...);
    First gradients = unflatten(First(first), scalar_gradients(value, inputs, flat.tensors));
    const bool differentiable = std::any_of(flat.tensors.begin(), flat.tensors.end(),
                                            [](const at::Tensor& tensor) { return tensor.requires_grad(); });
    return std::pair<at::Tensor, First>(differentiable ? value : value.detach(), std::move(gradients));
  }
};

template <class F>
struct Grad {
  ValueAndGrad<F> both;
  template <class First, class... Rest>
  auto operator()(First& first, Rest&... rest) {
    return both(first, rest...).second;
  }
};

}  // namespace detail

/// Returns a compiled function of the same arguments that gives {value, gradients}: the gradients of the scalar that
/// `function` returns, with respect to its first argument and in its type. Leaves that nothing reaches get zeros.
/// The result is itself differentiable where the first argument requires grad, to any order.
/// Errors, when called: UserError for a leaf of the first argument that is not floating point, and for a value that is
/// no scalar.
template <class F>
auto value_and_grad(F&& function, AotOptions options = {.name = "value_and_grad"}) {
  return aot_function(detail::ValueAndGrad<std::decay_t<F>>{std::forward<F>(function)}, std::move(options));
}

/// value_and_grad() without the value.
template <class F>
auto grad(F&& function, AotOptions options = {.name = "grad"}) {
  return aot_function(detail::Grad<std::decay_t<F>>{{std::forward<F>(function)}}, std::move(options));
}

}  // namespace diptych
