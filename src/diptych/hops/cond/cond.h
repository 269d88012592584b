// dp::cond: one of two functions, chosen by a value that is known only when the graph runs.
#pragma once
#include "diptych/hops/flat_function.h"
#include "diptych/hops/scan/scan.h"

namespace diptych {
namespace detail {

/// cond() on flat tensors.
std::vector<at::Tensor> cond_flat(const at::Tensor& predicate, const FlatFunction& if_true,
                                  const FlatFunction& if_false, const Flattened& arguments);

/// Flattens the arguments into one list, named "arg0", "arg1" ...
template <class... A>
Flattened flatten_all(const A&... arguments) {
  TreeRecorder recorder;
  visit_arguments({}, recorder, arguments...);
  return {recorder.take_tensors(), recorder.take_spec()};
}

}  // namespace detail

/// Returns if_true(arguments...) where `predicate` is true, else if_false(arguments...). Both are captured, on
/// stand-ins; only the chosen one is run. They may capture tensors and modules, and everything is differentiable to any
/// order. A gradient that flows in only one of the two is zeros where the other was chosen. `predicate`: one element,
/// true where it is not zero. Both functions return trees of one structure, with tensors of the same sizes and dtypes.
/// Arguments and captured tensors that the functions change in place are changed as the chosen function changes them;
/// autograd sees them as written to whichever was chosen.
/// Errors: UserError for a predicate of another kind, and by path where the results disagree; what the functions throw.
/// Source: jax.lax.cond.
template <class True, class False, class... A>
auto cond(const at::Tensor& predicate, True&& if_true, False&& if_false, const A&... arguments) {
  using Result = std::decay_t<decltype(if_true(std::declval<A&>()...))>;
  static_assert(std::is_same_v<Result, std::decay_t<decltype(if_false(std::declval<A&>()...))>>,
                "The two functions of a cond must return values of the same type.");
  std::shared_ptr<Result> example, other;
  const auto flat_true = detail::make_flat<Result>(if_true, example, arguments...);
  const auto flat_false = detail::make_flat<Result>(if_false, other, arguments...);
  auto tensors = detail::cond_flat(predicate, flat_true, flat_false, detail::flatten_all(arguments...));
  // In eager, only the chosen function has run.
  if (!example || !other) return detail::make_result(example ? *example : *other, std::move(tensors));
  detail::check_structure("cond", "the result of the false function", diptych::flatten(*example, "out").spec,
                          diptych::flatten(*other, "out").spec);
  return detail::make_result(*example, std::move(tensors));
}

}  // namespace diptych
