// dp::aot_function: a function that captures its forward and backward graphs on first use and runs them from then on.
#pragma once
#include <memory>
#include <type_traits>
#include <utility>

#include "diptych/compile/call_runner.h"
#include "diptych/trace/shadow.h"

namespace diptych {

/// A function that is compiled ahead of its backward. A call has the values, gradients, aliasing, mutation and errors
/// that calling `F` in eager has. Copies share one cache.
///
///   dp::Aot loss = dp::aot_function(loss_fn, {.partition = dp::min_cut()});
///   loss(params, batch).backward();
///
/// Arguments and results are any trees of tensors and constants (tree/tree.h). A tensor that `F` captures is an input
/// like any other, known by its identity: after giving the captured handle another tensor, call clear(); or pass the
/// tensor as an argument. Threads: may be called from several at once.
template <class F>
class Aot {
 public:
  explicit Aot(F function, AotOptions options = {})
      : state_(std::make_shared<State>(std::move(function), std::move(options))) {}

  /// Runs the function, capturing it first if the guards of no earlier capture hold. Inside another capture it is
  /// inlined.
  /// Errors: UserError that names what a graph can't hold; whatever the function itself throws.
  template <class... A>
  auto operator()(A&&... arguments) const {
    using Result = std::decay_t<decltype(std::declval<F&>()(std::declval<std::remove_cvref_t<A>&>()...))>;
    static_assert(!std::is_void_v<Result>,
                  "The function returns nothing; a captured function must return at least one tensor.");
    if (detail::runs_inlined()) return Result(state_->function(arguments...));
    detail::TypedCall<Result, F, std::remove_reference_t<A>...> call(state_->function, arguments...);
    state_->runner.run(call);
    return call.take_result();
  }

  /// Runs the function itself, and counts it, for a reason that a binding finds in the arguments before it calls.
  template <class... A>
  auto call_original(const std::string& why, A&&... arguments) const {
    state_->runner.count_original(why);
    return state_->function(arguments...);
  }

  CacheStats stats() const { return state_->runner.stats(); }
  /// The captures in words, oldest first: the types of the arguments, and below them the values that the function asks
  /// for as a tree, whose branches are answers and whose leaves are graphs. Calls that run the function itself say why.
  std::string explain() const { return state_->runner.explain(); }
  /// The captures that are cached, most recent first.
  std::vector<std::shared_ptr<const detail::CompiledFunction>> captures() const { return state_->runner.captures(); }
  /// What backend "native" made of the graphs of these captures, as far as they are compiled: of each the forward
  /// graph, then its backward graphs.
  std::vector<NativeGraph> native_graphs() const { return state_->runner.native_graphs(); }
  /// Forgets every capture.
  void clear() const { state_->runner.clear(); }

 private:
  struct State {
    State(F f, AotOptions options) : function(std::move(f)), runner(std::move(options)) {}
    F function;
    detail::CallRunner runner;
  };

  std::shared_ptr<State> state_;
};

/// Makes a compiled function of `function`. See Aot and AotOptions.
template <class F>
Aot<std::decay_t<F>> aot_function(F&& function, AotOptions options = {}) {
  return Aot<std::decay_t<F>>(std::forward<F>(function), std::move(options));
}

}  // namespace diptych
