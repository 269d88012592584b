// dp::aot_function: a function that captures its forward and backward graphs on first use and runs them from then on.
#pragma once
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include "diptych/compile/arguments.h"
#include "diptych/compile/cache.h"
#include "diptych/trace/recorder.h"

namespace diptych {

/// A function that is compiled ahead of its backward. Calling it gives what `F` would give in eager: values, gradients,
/// aliasing, mutation and errors. Copies share one cache.
///
///   dp::Aot loss = dp::aot_function(loss_fn, {.partition = dp::min_cut()});
///   loss(params, batch).backward();
///
/// Arguments and results are any trees of tensors and constants (tree/tree.h). A tensor that `F` captures is an input
/// like any other, known by identity: give the captured handle another tensor, and call clear(), or pass it as
/// argument. Threads: may be called from several at once.
template <class F>
class Aot {
 public:
  explicit Aot(F function, AotOptions options = {})
      : state_(std::make_shared<State>(std::move(function), std::move(options))) {}

  /// Runs the function, capturing it first if the guards of no earlier capture hold. Inside another capture it is
  /// inlined.
  /// Errors: UserError for what a graph can't hold, naming it; what the function itself throws.
  template <class... A>
  auto operator()(A&&... arguments) const {
    using Result = std::decay_t<decltype(std::declval<F&>()(std::declval<std::remove_cvref_t<A>&>()...))>;
    static_assert(!std::is_void_v<Result>,
                  "The function returns nothing; a captured function returns at least one tensor.");
    if (detail::Recorder::current() != nullptr) return Result(state_->function(arguments...));
    return call<Result>(arguments...);
  }

  CacheStats stats() const { return state_->cache.stats(); }
  /// The captures that are cached, most recent first.
  std::vector<std::shared_ptr<const CompiledFunction>> captures() const {
    std::vector<std::shared_ptr<const CompiledFunction>> result;
    for (const auto& entry : state_->cache.entries()) result.push_back(entry->code);
    return result;
  }
  /// Forgets every capture.
  void clear() const { state_->cache.clear(); }

 private:
  struct State {
    State(F f, AotOptions o)
        : function(std::move(f)), options(std::move(o)), cache(options.name, options.cache_limit) {}
    F function;
    AotOptions options;
    Cache cache;
  };

  template <class Result, class... A>
  Result call(A&... arguments) const {
    Cache::Tensors tensors;
    const auto entry = state_->cache.find(
        [&](const Cache::Entry& candidate, Cache::Tensors& out) {
          return *candidate.result_type == typeid(Result) && detail::match_arguments(candidate.spec, out, arguments...);
        },
        tensors);
    if (entry) return run<Result>(*entry, tensors);
    return run<Result>(*capture<Result>(tensors, arguments...), tensors);
  }

  template <class Result>
  static Result run(const Cache::Entry& entry, const Cache::Tensors& tensors) {
    return detail::make_result(*static_cast<const Result*>(entry.result_example.get()), entry.code->call(tensors));
  }

  template <class Result, class... A>
  std::shared_ptr<const Cache::Entry> capture(Cache::Tensors& tensors, A&... arguments) const {
    Flattened flat = detail::flatten_arguments(state_->options.argument_names, arguments...);
    tensors.clear();
    detail::match_arguments(flat.spec, tensors, arguments...);
    std::shared_ptr<Result> example;
    const auto function = detail::make_flat<Result>(state_->function, example, arguments...);
    const auto paths = flat.spec.tensor_paths();
    std::optional<TreeSpec> result;
    const auto capture_at = [&](const std::vector<at::Tensor>& given,
                                const SimplifyOptions& simplify) -> std::shared_ptr<CompiledFunction> {
      auto code = std::make_shared<CompiledFunction>(function, given, paths, state_->options, simplify);
      const TreeSpec spec = diptych::flatten(*example).spec;
      if (result && !(spec == *result)) return nullptr;
      result = spec;
      return code;
    };
    auto entry = state_->cache.make(std::move(flat.spec), flat.tensors, tensors, capture_at, state_->options.dynamic);
    entry->result_example = std::move(example);
    entry->result_type = &typeid(Result);
    state_->cache.insert(entry);
    return entry;
  }

  std::shared_ptr<State> state_;
};

/// Makes a compiled function of `function`. See Aot and AotOptions.
template <class F>
Aot<std::decay_t<F>> aot_function(F&& function, AotOptions options = {}) {
  return Aot<std::decay_t<F>>(std::forward<F>(function), std::move(options));
}

}  // namespace diptych
