#include "diptych/compile/call_runner.h"

#include <c10/core/AutogradState.h>

#include "diptych/base/error_words.h"
#include "diptych/compile/check_constants.h"
#include "diptych/compile/explain_captures.h"
#include "diptych/trace/transforms.h"

namespace diptych::detail {
namespace {

// Ends the watch if the capture fails; if it succeeds, the caller ends it.
template <class Make>
auto made_under(CaptureWatch& watch, const AotOptions& options, const Make& make) {
  try {
    return make();
  } catch (const TransformMet&) {
    take_back(watch);
    throw;
  } catch (...) {
    const std::string refusal = options.eager_fallback ? watch.refusal() : "";
    if (!refusal.empty()) {
      take_back(watch);
      throw CaptureRefused(refusal);
    }
    if (watch.forget()) throw TransformMet("the function raises an exception while it is captured");
    throw;
  }
}

}  // namespace

CallRunner::CallRunner(AotOptions options)
    : options_(std::move(options)), cache_(options_.name, options_.cache_limit), check_(options_.check) {}

CallRunner::~CallRunner() = default;

CacheStats CallRunner::stats() const {
  CacheStats stats = cache_.stats();
  stats.checks = check_.num_checks();
  return stats;
}

std::string CallRunner::explain() const { return explain_captures(cache_.entries()); }

std::vector<std::shared_ptr<const CompiledFunction>> CallRunner::captures() const {
  std::vector<std::shared_ptr<const CompiledFunction>> result;
  for (const auto& entry : cache_.entries()) {
    if (entry->code) result.push_back(entry->code);
  }
  return result;
}

std::vector<NativeGraph> CallRunner::native_graphs() const {
  std::vector<NativeGraph> graphs;
  for (const auto& code : captures()) {
    for (const auto& [name, executable] : code->executables()) add_native_graphs(name, executable, graphs);
  }
  return graphs;
}

void CallRunner::clear() {
  cache_.clear();
  transformed_.clear();
}

// Runs the function itself, because no graph can stand for the call: see Note [Transformed calls].
void CallRunner::run_in_eager(ErasedCall& call, const std::string& why) {
  cache_.count_original(why);
  call.run_original();
}

// Calls the function as a hop, which has rules for transforms: see Note [Transformed hops]. Where there is no rule,
// or no graph, the function itself runs, for the reason `why`.
void CallRunner::run_in_transform(ErasedCall& call, const std::string& why) {
  const Flattened flat = call.flatten(options_.argument_names);
  if (why_eager({&flat})) return run_in_eager(call, why);
  std::string met;
  try {
    auto entry = transformed_.find(flat, call.result_type, options_.path_limit);
    if (entry == nullptr) {
      cache_.count_transformed_miss();
      entry = capture_transformed(call, flat);
    } else if (entry->why.empty()) {
      cache_.count_transformed_hit();
    }
    if (entry->why.empty()) {
      return call.set_result(entry->result_example.get(), TransformedCalls::call(*entry, flat));
    }
    met = entry->why;
  } catch (const std::exception& error) {
    met = words_of(error);  // the function itself may do what no rule covers, or has the same error
  }
  run_in_eager(call, met);
}

std::shared_ptr<const TransformedCalls::Entry> CallRunner::capture_transformed(ErasedCall& call,
                                                                               const Flattened& flat) {
  const auto function = call.flat_function();
  const auto watch = call.watch();
  const auto make = [&] { return TransformedCalls::make(flat, function, options_); };
  std::shared_ptr<TransformedCalls::Entry> entry;
  try {
    entry = watch ? made_under(*watch, options_, make) : make();
    if (watch) entry->why = watch->finish(TransformedCalls::written(*entry, flat)).what;
  } catch (const std::exception& error) {
    entry = TransformedCalls::describe(flat);
    entry->why = words_of(error);
  }
  entry->result_example = call.example();
  entry->result_type = &call.result_type;
  if (entry->is_kept) transformed_.insert(entry);
  return entry;
}

void CallRunner::run(ErasedCall& call) {
  if (thread_may_transform()) [[unlikely]] {
    if (const auto why = transform_of_thread()) return run_in_transform(call, *why);
  }
  if (cache_.is_always_original()) [[unlikely]]
    return run_original(call);
  Cache::Tensors tensors;
  std::vector<at::Tensor> handed_on;
  const auto entry = cache_.find(
      [&](const Cache::Entry& candidate, Cache::Tensors& out) {
        return *candidate.result_type == call.result_type && call.match(candidate.spec, out);
      },
      tensors, &handed_on);
  if (entry) return serve(call, entry, tensors, std::move(handed_on));
  Flattened flat = call.flatten(options_.argument_names);
  if (const auto why = cache_.why_eager(flat)) return run_in_transform(call, *why);
  run_new(call, std::move(flat), tensors);
}

void CallRunner::run_new(ErasedCall& call, Flattened flat, Cache::Tensors& tensors) {
  EntryPtr made;
  const GlobalState before = GlobalState::current();
  const c10::AutogradState modes = c10::AutogradState::get_tls_state();
  try {
    made = capture(call, flat, tensors);
  } catch (const TransformMet& met) {
    cache_.count_given_up();
    return run_in_eager(call, met.why());
  } catch (const CaptureRefused& refusal) {
    if (!options_.eager_fallback) throw;
    c10::AutogradState::set_tls_state(modes);  // the trace may have ended between two changes of them
    cache_.insert_refused(call.flatten(options_.argument_names).spec, before, call.result_type, refusal.what());
    return run_original(call);
  }
  serve(call, made, tensors, {});
}

void CallRunner::serve(ErasedCall& call, const EntryPtr& entry, const Cache::Tensors& tensors,
                       std::vector<at::Tensor> handed_on) {
  const bool accumulates = entry->original.empty() && !entry->code->plan().accumulated.empty();
  if (accumulates && entry->code->captured().meets_gradient_hook(tensors)) [[unlikely]]
    return run_in_eager(call, "its backward() meets a hook on a gradient");
  if (!accumulates && check_.is_due()) [[unlikely]]
    return run_checked(call, entry, tensors);
  if (constants_are_due(call, *entry)) [[unlikely]]
    check_constants_of(call, *entry, tensors);
  run_entry(call, *entry, tensors, std::move(handed_on));
}

void CallRunner::run_checked(ErasedCall& call, const EntryPtr& entry, const Cache::Tensors& tensors) {
  if (!entry->original.empty()) return run_entry(call, *entry, tensors, {});
  const void* compiled = entry->result_example.get();
  CheckedCall check(entry->code, tensors);
  check.run_original(call.flat_function());
  auto outputs = check.run_compiled();
  const auto original = call.example();
  if (original) check.compare_structure(call.spec_of(original.get()), call.spec_of(compiled));
  check.compare(outputs);
  call.set_result(compiled, std::move(outputs));
}

bool CallRunner::constants_are_due(const ErasedCall& call, const Cache::Entry& entry) const {
  if (call.is_watched || options_.check_constants == 0 || !entry.original.empty()) return false;
  if (!entry.code->captured().questions().empty()) return false;  // which a trace would ask, and so compute, again
  const uint64_t earlier = entry.num_served.fetch_add(1, std::memory_order_relaxed);
  const bool is_second = earlier == 1 && !entry.checked;  // which has met a trace at each size
  return is_second || (earlier != 0 && earlier % options_.check_constants == 0);
}

void CallRunner::check_constants_of(ErasedCall& call, const Cache::Entry& entry, Cache::Tensors tensors) const {
  const Flattened flat = call.flatten(options_.argument_names);
  const CapturedFunction now(call.flat_function(), flat.tensors, flat.spec.tensor_paths(), options_,
                             CaptureExtent::kTrace);
  if (!(call.spec_of(call.example().get()) == call.spec_of(entry.result_example.get())))
    report_moved(options_.name, "other constants in its result");
  if (!entry.sized) return check_constants(entry.code->captured(), now);
  SymbolValues sizes{};
  entry.code->captured().append_free_variables(tensors);
  entry.guards.check(tensors, &sizes);
  if (entry.sized->agrees(now, sizes) == std::optional(false)) report_moved(options_.name, "other nodes or constants");
}

void CallRunner::run_original(ErasedCall& call) {
  cache_.count_original();
  call.run_original();
}

void CallRunner::run_entry(ErasedCall& call, const Cache::Entry& entry, const Cache::Tensors& tensors,
                           std::vector<at::Tensor> handed_on) {
  if (!entry.original.empty() && !entry.is_done.exchange(false)) [[unlikely]]
    return run_original(call);
  call.set_result(entry.result_example.get(), entry.code->call(tensors, std::move(handed_on)));
}

CallRunner::EntryPtr CallRunner::capture(ErasedCall& call, const Flattened& flat, Cache::Tensors& tensors) {
  tensors.clear();
  call.match(flat.spec, tensors);
  const auto function = call.flat_function();
  const auto paths = flat.spec.tensor_paths();
  std::optional<TreeSpec> result;
  const CaptureAt capture_at = [&](const std::vector<at::Tensor>& given,
                                   const CaptureMode& mode) -> std::shared_ptr<CapturedFunction> {
    auto code = std::make_shared<CapturedFunction>(function, given, paths, options_, mode, call.is_watched);
    const TreeSpec spec = call.spec_of(call.example().get());
    // The capture that no other has to agree with is of the structure that it has.
    if (mode.extent != CaptureExtent::kCallable && result && !(spec == *result)) return nullptr;
    result = spec;
    return code;
  };
  const auto has_same_result = [&](const Cache::Entry& entry) {
    return *entry.result_type == call.result_type && call.spec_of(entry.result_example.get()) == *result;
  };
  const Cache::Miss miss{flat.spec, flat.tensors, tensors, capture_at, has_same_result};
  if (auto entry = find_by_trace(call, miss)) return entry;
  const auto entry = make_watched(call, miss);
  entry->result_example = call.example();
  entry->result_type = &call.result_type;
  cache_.insert(entry);
  return entry;
}

// If the function has effects on the host at these sizes that it did not have at the captured ones, no entry fits.
CallRunner::EntryPtr CallRunner::find_by_trace(const ErasedCall& call, const Cache::Miss& miss) {
  if (!cache_.has_unchecked(miss)) return nullptr;
  const auto watch = call.watch();
  if (!watch) return cache_.find_by_trace(miss);
  const CaptureAt capture = [&](const std::vector<at::Tensor>& given, const CaptureMode& mode) {
    auto trace = made_under(*watch, options_, [&] { return miss.capture(given, mode); });
    const auto written = trace ? trace->written(miss.tensors) : std::vector<at::Tensor>();
    return watch->finish(written).what.empty() ? trace : nullptr;
  };
  return cache_.find_by_trace({miss.spec, miss.arguments, miss.tensors, capture, miss.has_same_result});
}

// If a binding sees the function do anything besides calling operators, calls of this kind run the function itself.
// The guards compare what the function reads once the binding knows it.
std::shared_ptr<Cache::Entry> CallRunner::make_watched(const ErasedCall& call, const Cache::Miss& miss) {
  const auto make = [&] { return cache_.make(miss, options_); };
  const auto watch = call.watch();
  if (!watch) return make();
  const auto entry = made_under(*watch, options_, make);
  const CaptureWatch::Found found = watch->finish(entry->code->captured().written(miss.tensors));
  if (!found.what.empty()) cache_.run_original(*entry, found.what, found.is_undone);
  if (found.guards_more) entry->spec = call.flatten(options_.argument_names).spec;
  return entry;
}

}  // namespace diptych::detail
