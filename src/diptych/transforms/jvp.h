// dp::jvp: a function's result and its directional derivative, by forward-mode automatic differentiation.
#pragma once
#include <tuple>
#include <utility>
#include <vector>

#include "diptych/hops/flat_function.h"

namespace diptych {
namespace detail {

/// Results, then their tangents, of a function of flat tensors. Errors: as jvp().
std::pair<std::vector<at::Tensor>, std::vector<at::Tensor>> jvp_flat(const FlatFunction& function,
                                                                     const Flattened& primals,
                                                                     const Flattened& tangents);

}  // namespace detail

/// Returns {function(primals...), J tangents}: the derivative of the result in the direction of `tangents`, in its
/// type; zeros where nothing flows. It composes with vmap(), grad() and itself, inside captures and outside.
///   const auto [y, dy] = dp::jvp(f, std::tuple(x), std::tuple(direction));
/// Shapes: tangents have the structure, sizes and dtypes of `primals`.
/// Errors: UserError by path for tangents unlike the primals; torch's for an operator without a forward derivative.
/// Source: jax.jvp; torch.func.jvp.
/// Threads: calls on several threads wait for one another, since torch has one level of forward mode in a process.
template <class F, class... A>
auto jvp(F&& function, const std::tuple<A...>& primals, const std::tuple<A...>& tangents) {
  using Result = std::decay_t<decltype(function(std::declval<const A&>()...))>;
  const auto apply = [&](const std::tuple<A...>& arguments) -> Result { return std::apply(function, arguments); };
  std::shared_ptr<Result> example;
  const auto flat = detail::make_flat<Result>(apply, example, primals);
  auto found = detail::jvp_flat(flat, diptych::flatten(primals, "primals"), diptych::flatten(tangents, "tangents"));
  Result tangent = detail::make_result(*example, std::move(found.second));
  return std::pair<Result, Result>(detail::make_result(*example, std::move(found.first)), std::move(tangent));
}

}  // namespace diptych
