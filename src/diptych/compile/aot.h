// dp::aot_function: a function that captures its forward and backward graphs on first use and runs them from then on.
#pragma once
#include <c10/core/AutogradState.h>

#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include "diptych/compile/arguments.h"
#include "diptych/compile/cache.h"
#include "diptych/compile/capture_watch.h"
#include "diptych/compile/check.h"
#include "diptych/compile/explain_captures.h"
#include "diptych/compile/transformed_calls.h"
#include "diptych/native/native_graph.h"
#include "diptych/trace/recorder.h"
#include "diptych/trace/shadow.h"
#include "diptych/trace/transforms.h"

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
    return call<Result>(arguments...);
  }

  /// Runs the function itself, and counts it, for a reason that a binding finds in the arguments before it calls.
  template <class... A>
  auto call_original(const std::string& why, A&&... arguments) const {
    state_->cache.count_original(why);
    return state_->function(arguments...);
  }

  CacheStats stats() const {
    CacheStats stats = state_->cache.stats();
    stats.checks = state_->check.num_checks();
    return stats;
  }
  /// The captures in words, oldest first: the types of the arguments, and below them the values that the function asks
  /// for as a tree, whose branches are answers and whose leaves are graphs. Calls that run the function itself say why.
  std::string explain() const { return detail::explain_captures(state_->cache.entries()); }
  /// The captures that are cached, most recent first.
  std::vector<std::shared_ptr<const detail::CompiledFunction>> captures() const {
    std::vector<std::shared_ptr<const detail::CompiledFunction>> result;
    for (const auto& entry : state_->cache.entries()) {
      if (entry->code) result.push_back(entry->code);
    }
    return result;
  }
  /// What backend "native" made of the graphs of these captures, as far as they are compiled: of each the forward
  /// graph, then its backward graphs.
  std::vector<NativeGraph> native_graphs() const {
    std::vector<NativeGraph> graphs;
    for (const auto& code : captures()) {
      for (const auto& [name, executable] : code->executables()) detail::add_native_graphs(name, executable, graphs);
    }
    return graphs;
  }
  /// Forgets every capture.
  void clear() const {
    state_->cache.clear();
    state_->transformed.clear();
  }

 private:
  static constexpr bool kIsWatched = requires(F & function) { function.watch_capture(); };
  struct State {
    State(F f, AotOptions o)
        : function(std::move(f)),
          options(std::move(o)),
          cache(options.name, options.cache_limit),
          check(options.check) {}
    F function;
    AotOptions options;
    detail::Cache cache;
    detail::CheckSchedule check;
    detail::TransformedCalls transformed;
  };

  // Runs the function itself, because no graph can stand for the call: see Note [Transformed calls].
  template <class Result, class... A>
  Result in_eager(const std::string& why, A&... arguments) const {
    state_->cache.count_original(why);
    return Result(state_->function(arguments...));
  }

  // Calls the function as a hop, which has rules for transforms: see Note [Transformed hops]. Where there is no rule,
  // or no graph, the function itself runs, for the reason `why`.
  template <class Result, class... A>
  Result in_transform(const std::string& why, A&... arguments) const {
    const Flattened flat = detail::flatten_arguments(state_->options.argument_names, arguments...);
    if (detail::why_eager({&flat})) return in_eager<Result>(why, arguments...);
    std::string met;
    try {
      auto entry = state_->transformed.find(flat, typeid(Result), state_->options.path_limit);
      if (entry == nullptr) {
        state_->cache.count_transformed_miss();
        entry = capture_transformed<Result>(flat, arguments...);
      } else if (entry->why.empty()) {
        state_->cache.count_transformed_hit();
      }
      if (entry->why.empty()) {
        return detail::make_result(*static_cast<const Result*>(entry->result_example.get()),
                                   detail::TransformedCalls::call(*entry, flat));
      }
      met = entry->why;
    } catch (const std::exception& error) {
      met = error.what();  // the function itself may do what no rule covers, or has the same error
    }
    return in_eager<Result>(met, arguments...);
  }

  template <class Result, class... A>
  std::shared_ptr<const detail::TransformedCalls::Entry> capture_transformed(const Flattened& flat,
                                                                             A&... arguments) const {
    std::shared_ptr<Result> example;
    const auto function = detail::make_flat<Result>(state_->function, example, arguments...);
    const auto watch = detail::watch_capture(state_->function);
    const auto make = [&] { return detail::TransformedCalls::make(flat, function, state_->options); };
    std::shared_ptr<detail::TransformedCalls::Entry> entry;
    try {
      entry = watch ? made_under(*watch, make) : make();
      if (watch) entry->why = watch->finish(detail::TransformedCalls::written(*entry, flat)).what;
    } catch (const std::exception& error) {
      entry = detail::TransformedCalls::describe(flat);
      entry->why = error.what();
    }
    entry->result_example = std::move(example);
    entry->result_type = &typeid(Result);
    if (entry->is_kept) state_->transformed.insert(entry);
    return entry;
  }

  template <class Result, class... A>
  Result call(A&... arguments) const {
    if (detail::thread_may_transform()) [[unlikely]] {
      if (const auto why = detail::transform_of_thread()) return in_transform<Result>(*why, arguments...);
    }
    if (state_->cache.is_always_original()) [[unlikely]]
      return run_original<Result>(arguments...);
    detail::Cache::Tensors tensors;
    std::vector<at::Tensor> handed_on;
    const auto entry = state_->cache.find(
        [&](const detail::Cache::Entry& candidate, detail::Cache::Tensors& out) {
          return *candidate.result_type == typeid(Result) && detail::match_arguments(candidate.spec, out, arguments...);
        },
        tensors, &handed_on);
    if (entry) return serve<Result>(entry, tensors, std::move(handed_on), arguments...);
    Flattened flat = detail::flatten_arguments(state_->options.argument_names, arguments...);
    if (const auto why = state_->cache.why_eager(flat)) return in_transform<Result>(*why, arguments...);
    std::shared_ptr<const detail::Cache::Entry> made;
    const detail::GlobalState before = detail::GlobalState::current();
    const c10::AutogradState modes = c10::AutogradState::get_tls_state();
    try {
      made = capture<Result>(std::move(flat), tensors, arguments...);
    } catch (const detail::TransformMet& met) {
      state_->cache.count_given_up();
      return in_eager<Result>(met.why(), arguments...);
    } catch (const detail::CaptureRefused& refusal) {
      if (!state_->options.eager_fallback) throw;
      c10::AutogradState::set_tls_state(modes);  // the trace may have ended between two changes of them
      state_->cache.insert_refused(detail::flatten_arguments(state_->options.argument_names, arguments...).spec, before,
                                   typeid(Result), refusal.what());
      return run_original<Result>(arguments...);
    }
    return serve<Result>(made, tensors, {}, arguments...);
  }

  template <class Result, class... A>
  Result serve(const std::shared_ptr<const detail::Cache::Entry>& entry, const detail::Cache::Tensors& tensors,
               std::vector<at::Tensor> handed_on, A&... arguments) const {
    const bool accumulates = entry->original.empty() && !entry->code->plan().accumulated.empty();
    if (accumulates && entry->code->captured().meets_gradient_hook(tensors)) [[unlikely]]
      return in_eager<Result>("its backward() meets a hook on a gradient", arguments...);
    if (!accumulates && state_->check.is_due()) [[unlikely]]
      return call_checked<Result>(entry, tensors, arguments...);
    return run<Result>(*entry, tensors, std::move(handed_on), arguments...);
  }

  template <class Result, class... A>
  Result call_checked(const std::shared_ptr<const detail::Cache::Entry>& entry, const detail::Cache::Tensors& tensors,
                      A&... arguments) const {
    if (!entry->original.empty()) return run<Result>(*entry, tensors, {}, arguments...);
    const auto& compiled = *static_cast<const Result*>(entry->result_example.get());
    std::shared_ptr<Result> original;
    detail::CheckedCall check(entry->code, tensors);
    check.run_original(detail::make_flat<Result>(state_->function, original, arguments...));
    auto outputs = check.run_compiled();
    if (original) check.compare_structure(diptych::flatten(*original).spec, diptych::flatten(compiled).spec);
    check.compare(outputs);
    return detail::make_result(compiled, std::move(outputs));
  }

  template <class Result, class... A>
  Result run_original(A&... arguments) const {
    state_->cache.count_original();
    return Result(state_->function(arguments...));
  }

  template <class Result, class... A>
  Result run(const detail::Cache::Entry& entry, const detail::Cache::Tensors& tensors,
             std::vector<at::Tensor> handed_on, A&... arguments) const {
    if (!entry.original.empty() && !entry.is_done.exchange(false)) [[unlikely]]
      return run_original<Result>(arguments...);
    return detail::make_result(*static_cast<const Result*>(entry.result_example.get()),
                               entry.code->call(tensors, std::move(handed_on)));
  }

  template <class Result, class... A>
  std::shared_ptr<const detail::Cache::Entry> capture(Flattened flat, detail::Cache::Tensors& tensors,
                                                      A&... arguments) const {
    tensors.clear();
    detail::match_arguments(flat.spec, tensors, arguments...);
    std::shared_ptr<Result> example;
    const auto function = detail::make_flat<Result>(state_->function, example, arguments...);
    const auto paths = flat.spec.tensor_paths();
    std::optional<TreeSpec> result;
    const detail::CaptureAt capture_at =
        [&](const std::vector<at::Tensor>& given,
            const detail::CaptureMode& mode) -> std::shared_ptr<detail::CapturedFunction> {
      auto code = std::make_shared<detail::CapturedFunction>(function, given, paths, state_->options, mode, kIsWatched);
      const TreeSpec spec = diptych::flatten(*example).spec;
      // The capture that no other has to agree with is of the structure that it has.
      if (mode.extent != detail::CaptureExtent::kCallable && result && !(spec == *result)) return nullptr;
      result = spec;
      return code;
    };
    const auto has_same_result = [&](const detail::Cache::Entry& entry) {
      if (*entry.result_type != typeid(Result)) return false;
      return diptych::flatten(*static_cast<const Result*>(entry.result_example.get())).spec == *result;
    };
    const detail::Cache::Miss miss{flat.spec, flat.tensors, tensors, capture_at, has_same_result};
    if (auto entry = find_by_trace(miss)) return entry;
    auto entry =
        watched(miss, [&] { return detail::flatten_arguments(state_->options.argument_names, arguments...).spec; });
    entry->result_example = std::move(example);
    entry->result_type = &typeid(Result);
    state_->cache.insert(entry);
    return entry;
  }

  // Ends the watch if the capture fails; if it succeeds, the caller ends it.
  template <class Make>
  auto made_under(detail::CaptureWatch& watch, const Make& make) const {
    try {
      return make();
    } catch (const detail::TransformMet&) {
      detail::take_back(watch);
      throw;
    } catch (...) {
      const std::string refusal = state_->options.eager_fallback ? watch.refusal() : "";
      if (!refusal.empty()) {
        detail::take_back(watch);
        throw detail::CaptureRefused(refusal);
      }
      if (watch.forget()) throw detail::TransformMet("the function raises an exception while it is captured");
      throw;
    }
  }

  // If the function has effects on the host at these sizes that it did not have at the captured ones, no entry fits.
  std::shared_ptr<const detail::Cache::Entry> find_by_trace(detail::Cache::Miss miss) const {
    if (!state_->cache.has_unchecked(miss)) return nullptr;
    const auto watch = detail::watch_capture(state_->function);
    if (!watch) return state_->cache.find_by_trace(miss);
    const detail::CaptureAt capture = [&](const std::vector<at::Tensor>& given, const detail::CaptureMode& mode) {
      auto trace = made_under(*watch, [&] { return miss.capture(given, mode); });
      const auto written = trace ? trace->written(miss.tensors) : std::vector<at::Tensor>();
      return watch->finish(written).what.empty() ? trace : nullptr;
    };
    return state_->cache.find_by_trace({miss.spec, miss.arguments, miss.tensors, capture, miss.has_same_result});
  }

  // If a binding sees the function do anything besides calling operators, calls of this kind run the function itself.
  // spec_now() is what the guards compare once the binding knows what the function reads.
  template <class Spec>
  std::shared_ptr<detail::Cache::Entry> watched(const detail::Cache::Miss& miss, const Spec& spec_now) const {
    const auto make = [&] { return state_->cache.make(miss, state_->options); };
    const auto watch = detail::watch_capture(state_->function);
    if (!watch) return make();
    const auto entry = made_under(*watch, make);
    const detail::CaptureWatch::Found found = watch->finish(entry->code->captured().written(miss.tensors));
    if (!found.what.empty()) state_->cache.run_original(*entry, found.what, found.is_undone);
    if (found.guards_more) entry->spec = spec_now();
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
