// dp::custom_vjp: a function with a user-defined backward.
#pragma once
#include "diptych/hops/cond/cond.h"

namespace diptych {
namespace detail {

/// The user's fwd and bwd as functions of flat tensors.
struct FlatRules {
  FlatFunction fwd;                     ///< arguments to results, then residuals
  FlatFunction bwd;                     ///< residuals, then tangents to gradients, undefined where there is none
  std::function<size_t()> num_results;  ///< of fwd, once it has run
};

/// Calls the hop; returns the results.
std::vector<at::Tensor> custom_vjp_flat(const FlatRules& rules, const Flattened& arguments);

/// Returns whether gradients are recorded, or tangents computed, for one of these tensors, or for a tensor inside it
/// that vmap or torch.func wraps.
bool is_differentiated(const std::vector<at::Tensor>& tensors);

/// Returns why the rule can't provide the derivatives of a call on these arguments: they are of a class, or inside of a
/// mode, that hops have no rules for. Returns nullopt otherwise, and wherever nothing is differentiated.
std::optional<std::string> why_no_rule(const Flattened& arguments);

}  // namespace detail

/// A function with a backward of its own. See custom_vjp().
template <class F, class Fwd, class Bwd>
class CustomVjp {
 public:
  CustomVjp(F function, Fwd fwd, Bwd bwd)
      : function_(std::move(function)), fwd_(std::move(fwd)), bwd_(std::move(bwd)) {}

  template <class... A>
  auto operator()(const A&... arguments) const {
    using Result = std::decay_t<decltype(function_(arguments...))>;
    using Outputs = std::decay_t<decltype(fwd_(arguments...))>;
    using Residuals = std::decay_t<decltype(std::declval<Outputs>().second)>;
    using Gradients = std::decay_t<decltype(bwd_(std::declval<Residuals&>(), std::declval<Result&>()))>;
    static_assert(std::is_same_v<std::decay_t<decltype(std::declval<Outputs>().first)>, Result>,
                  "The fwd of a custom_vjp must return a std::pair of the function's result and the residuals.");
    static_assert(std::tuple_size_v<Gradients> == sizeof...(A),
                  "The bwd of a custom_vjp must return a std::tuple of one gradient per argument, each a tree like the "
                  "argument; an undefined tensor stands for no gradient.");
    const Flattened flat = detail::flatten_all(arguments...);
    if (!detail::is_differentiated(flat.tensors)) return Result(function_(arguments...));
    std::shared_ptr<Outputs> outputs;
    std::shared_ptr<Gradients> gradients;
    detail::FlatRules rules;
    rules.fwd = detail::make_flat<Outputs>(fwd_, outputs, arguments...);
    rules.bwd = [&](const std::vector<at::Tensor>& given) {
      return detail::make_flat<Gradients>(bwd_, gradients, outputs->second, outputs->first)(given);
    };
    rules.num_results = [&] { return diptych::flatten(outputs->first).tensors.size(); };
    auto tensors = detail::custom_vjp_flat(rules, flat);  // fills `outputs`
    return detail::make_result(outputs->first, std::move(tensors));
  }

 private:
  F function_;
  Fwd fwd_;
  Bwd bwd_;
};

/// Returns a function that returns function(arguments...) and is differentiated by the user's rules, in eager, in
/// captures and in bodies of higher-order operators alike. Where gradients are recorded, `fwd(arguments...)` is
/// captured instead, which returns a std::pair of the same result and of residuals, any tree of tensors. The backward
/// is `bwd(residuals, tangents)`; the tangents have the type of the result, with zeros where none was given. It returns
/// a std::tuple of one gradient per argument. Differentiated again, the gradient is that of bwd's operators, and of
/// fwd's on the way to residuals.
/// Errors: UserError for a gradient of other sizes or dtype than the argument, by path; where fwd captures a tensor
/// that requires grad; where fwd or bwd changes a tensor in place that it did not make. Inside of vmap, grad and jvp
/// the rules are followed as well: a forward-mode tangent is J t, found by differentiating bwd, which is linear in its
/// tangents. Source: jax.custom_vjp.
template <class F, class Fwd, class Bwd>
CustomVjp<std::decay_t<F>, std::decay_t<Fwd>, std::decay_t<Bwd>> custom_vjp(F&& function, Fwd&& fwd, Bwd&& bwd) {
  return {std::forward<F>(function), std::forward<Fwd>(fwd), std::forward<Bwd>(bwd)};
}

}  // namespace diptych
