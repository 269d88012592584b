// dp::map: a function on every slice.
#pragma once
#include "diptych/hops/scan/scan.h"

namespace diptych {

/// Returns f(x) for each slice x of `xs` along its first dimension, stacked along a new first dimension. f runs once,
/// on stand-ins. It is scan() without a carry, and throws the same errors. Source: jax.lax.map.
template <class F, class Xs>
auto map(F&& f, const Xs& xs) {
  const auto step = [&f](std::tuple<>&, Xs& x) {
    auto y = f(x);
    return std::pair<std::tuple<>, decltype(y)>({}, std::move(y));
  };
  return scan(step, std::tuple<>(), xs).second;
}

}  // namespace diptych
