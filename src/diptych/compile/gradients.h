// dp::grad and dp::value_and_grad: functions that return gradients, compiled with their forward into one graph.
#pragma once
#include <torch/csrc/autograd/autograd.h>

#include "diptych/compile/aot.h"
#include "diptych/trace/levels.h"

namespace diptych {
namespace detail {

/// Returns the first argument's tensors as inputs to differentiate with respect to.
std::vector<at::Tensor> differentiation_inputs(const Flattened& flat);
/// Returns the gradients of the scalar `value`: zeros where nothing flows, and differentiable again if the inputs are.
/// Errors: UserError if `value` is not a floating-point scalar.
std::vector<at::Tensor> scalar_gradients(const at::Tensor& value, const std::vector<at::Tensor>& inputs,
                                         const std::vector<at::Tensor>& originals);

/// Begins a level of grad if the thread is inside of a vmap, and of nothing inside of that: autograd itself would sum
/// over the elements of a batch.
void enter_grad_in_vmap(std::optional<InnerLevel>& level);

/// Returns the value in the result of a function whose gradients are taken: the result itself, or the first element of
/// a pair of the value and of what else the function computed.
inline at::Tensor& value_in(at::Tensor& result) { return result; }
template <class Extras>
at::Tensor& value_in(std::pair<at::Tensor, Extras>& result) {
  return result.first;
}
template <class Result>
concept HasValue = requires(Result& result) {
  value_in(result);
};

/// Returns a tensor of the result without the history that the differentiation gave it: an input becomes its original
/// again.
at::Tensor without_history(const at::Tensor& tensor, const std::vector<at::Tensor>& inputs,
                           const std::vector<at::Tensor>& originals);

template <class F>
struct ValueAndGrad {
  F function;
  auto watch_capture() requires requires { function.watch_capture(); }
  { return function.watch_capture(); }
  template <class First, class... Rest>
  auto operator()(First& first, Rest&... rest) {
    using Value = std::decay_t<decltype(function(first, rest...))>;
    static_assert(HasValue<Value>,
                  "grad and value_and_grad take a function that returns one tensor, or a std::pair of one tensor and "
                  "auxiliary results.");
    const c10::AutoGradMode record(true);
    std::optional<InnerLevel> level;
    enter_grad_in_vmap(level);
    const Flattened flat = flatten(first, argument_name({}, 0));
    const auto inputs = differentiation_inputs(flat);
    First argument = unflatten(First(first), inputs);
    Value value = function(argument, rest...);
    First gradients = unflatten(First(first), scalar_gradients(value_in(value), inputs, flat.tensors));
    const bool differentiable = std::any_of(flat.tensors.begin(), flat.tensors.end(),
                                            [](const at::Tensor& tensor) { return tensor.requires_grad(); });
    const auto release = [&](const at::Tensor& tensor) { return without_history(tensor, inputs, flat.tensors); };
    if (!differentiable) value = map_tensors(std::move(value), release);
    if (!level) return std::pair<Value, First>(std::move(value), std::move(gradients));
    level.reset();
    return std::pair<Value, First>(map_tensors(std::move(value), value_of_dead),
                                   map_tensors(std::remove_const_t<First>(gradients), value_of_dead));
  }
};

template <class F>
struct Grad {
  ValueAndGrad<F> both;
  template <class First, class... Rest>
  auto operator()(First& first, Rest&... rest) {
    auto [value, gradients] = both(first, rest...);
    if constexpr (std::is_same_v<decltype(value), at::Tensor>) {
      return std::move(gradients);
    } else {
      return std::pair(std::move(gradients), std::move(value.second));
    }
  }
};

}  // namespace detail

/// Returns a compiled function of the same arguments that returns {value, gradients}: the gradients of the scalar that
/// `function` returns, with respect to its first argument and in its type. Leaves that the scalar does not depend on
/// get zeros.
/// A function that returns a std::pair of the scalar and of what else it computed becomes one that returns {{value,
/// extras}, gradients}.
/// The result is itself differentiable where the first argument requires grad, to any order.
/// Errors, when called: UserError for a leaf of the first argument that is not floating point, and for a value that is
/// not a scalar.
template <class F>
auto value_and_grad(F&& function, AotOptions options = {.name = "value_and_grad"}) {
  return aot_function(detail::ValueAndGrad<std::decay_t<F>>{std::forward<F>(function)}, std::move(options));
}

/// Returns the function of value_and_grad() without the value: it returns the gradients, or {gradients, extras} if
/// there are extras.
template <class F>
auto grad(F&& function, AotOptions options = {.name = "grad"}) {
  return aot_function(detail::Grad<std::decay_t<F>>{{std::forward<F>(function)}}, std::move(options));
}

}  // namespace diptych
