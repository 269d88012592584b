// dp::vjp: a function's result, and the function that maps tangents of the result to gradients of the arguments.
#pragma once
#include <tuple>
#include <utility>
#include <vector>

#include "diptych/hops/flat_function.h"

namespace diptych {
namespace detail {

/// A call that gradients can be taken of: inputs and results, as they are inside of the level that recorded it.
struct RecordedCall {
  std::vector<at::Tensor> inputs;
  std::vector<at::Tensor> results;
  std::vector<at::Tensor> values;  ///< the results outside of the level
  std::vector<std::string> paths;  ///< of the results
};

/// Runs a flat function and records it. Errors: UserError for an undefined argument; what the function throws.
RecordedCall record_call(const FlatFunction& function, const Flattened& arguments);

/// Returns the gradient of each input, zeros where nothing flows. It may be called any number of times, inside of vmap,
/// and is differentiable. Errors: UserError by path for tangents unlike the results.
std::vector<at::Tensor> gradients_of(const RecordedCall& call, const std::vector<at::Tensor>& tangents);

}  // namespace detail

/// The second result of vjp(): call it with tangents of the function's result, in its type; it returns the gradients of
/// the arguments as a tuple. Threads: one at a time.
template <class Result, class... A>
class VjpFunction {
 public:
  VjpFunction(detail::RecordedCall call, std::tuple<A...> arguments)
      : call_(std::move(call)), arguments_(std::move(arguments)) {}

  std::tuple<A...> operator()(const Result& tangents) const {
    return unflatten(arguments_, detail::gradients_of(call_, diptych::flatten(tangents).tensors));
  }

 private:
  detail::RecordedCall call_;
  std::tuple<A...> arguments_;
};

/// Returns {function(arguments...), vjp}: the result, and a function that maps tangents t to the gradients J^T t of all
/// arguments, of which the tensors that are not floating point have zeros. It composes with vmap(), jvp() and grad(),
/// inside captures and outside.
///   const auto [y, pull_back] = dp::vjp(f, x, w);
///   const auto [dx, dw] = pull_back(torch::ones_like(y));
/// Errors: UserError for an undefined argument, and from the function for tangents unlike the result.
/// Source: jax.vjp; torch.func.vjp.
template <class F, class... A>
auto vjp(F&& function, const A&... arguments) {
  using Result = std::decay_t<decltype(function(arguments...))>;
  const std::tuple<A...> all(arguments...);
  const auto apply = [&](const std::tuple<A...>& given) -> Result { return std::apply(function, given); };
  std::shared_ptr<Result> example;
  auto call = detail::record_call(detail::make_flat<Result>(apply, example, all), diptych::flatten(all));
  auto values = call.values;
  Result result = detail::make_result(*example, std::move(values));
  return std::pair<Result, VjpFunction<Result, A...>>(std::move(result), {std::move(call), all});
}

}  // namespace diptych
