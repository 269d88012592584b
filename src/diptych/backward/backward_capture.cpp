#include "diptych/backward/backward_capture.h"

#include <ATen/Context.h>
#include <ATen/ThreadLocalState.h>
#include <fmt/ranges.h>
#include <torch/csrc/autograd/anomaly_mode.h>
#include <torch/csrc/autograd/engine.h>

#include <algorithm>
#include <atomic>
#include <mutex>

#include "diptych/backward/backward_cache.h"
#include "diptych/backward/backward_trace.h"
#include "diptych/backward/engine_gate.h"
#include "diptych/backward/run_backend.h"
#include "diptych/backward/run_limits.h"
#include "diptych/backward/scopes.h"
#include "diptych/base/check.h"
#include "diptych/base/last_error.h"
#include "diptych/base/log.h"
#include "diptych/interpreter/call_checks.h"
#include "diptych/interpreter/profiled_range.h"
#include "diptych/interpreter/run_guards.h"
#include "diptych/interpreter/sizes_input.h"
#include "diptych/trace/global_state.h"
#include "diptych/trace/recorder.h"

namespace diptych {

using namespace detail;
namespace {

thread_local BackwardCapture* innermost_guard = nullptr;

const RunBackend& chosen_backend(const backward_capture::Options& options) {
  return options.compiler != nullptr ? *options.compiler : run_backend(options.backend);
}

}  // namespace

/// The guards that eager on this thread, the innermost first.
struct detail::GuardsOfThread {
  static void for_each(const auto& visit) {
    for (BackwardCapture* guard = innermost_guard; guard != nullptr; guard = guard->outer_)
      visit(guard->stats_, guard->graphs_);
  }
  static const RunBackend* backend() { return innermost_guard == nullptr ? nullptr : &innermost_guard->backend_; }
  static bool is_strict() { return innermost_guard->options_.strict; }
};

namespace {

namespace ag = torch::autograd;
using detail::BackwardEntry;
using NodePtr = c10::intrusive_ptr<ag::Node>;

/// Who captures: threads with a guard, or all of them.
struct Switches {
  std::mutex mutex;
  size_t count = 0;                                        ///< guards of all threads, and 1 for enable()
  std::atomic<const RunBackend*> of_all_threads{nullptr};  ///< since enable(); null if it was not called
  std::atomic<bool> is_strict{false};                      ///< of these
};

Switches& switches() {
  static auto* const instance = new Switches;
  return *instance;
}

thread_local std::shared_ptr<const BackwardEntry> last;
thread_local size_t num_runs_in_progress = 0;    ///< nested runs that this thread is in
thread_local detail::PlannedEnding next_ending;  ///< of the run that starts next

ag::variable_list run_task(const NodePtr& root, const ag::GraphTask& task, bool accumulate,
                           const ag::edge_list& outputs);

void add_user() {
  auto& state = switches();
  const std::lock_guard lock(state.mutex);
  if (state.count == 0) {
    detail::make_entries_orderly();
    ag::Engine::set_compiled_autograd(run_task);
    detail::set_entries_watched(true);
  }
  ++state.count;
}

// The engine refuses while another thread is in a backward; the next user to leave then tries again.
void remove_user() noexcept {
  auto& state = switches();
  const std::lock_guard lock(state.mutex);
  if (--state.count > 0) return;
  try {
    ag::Engine::set_compiled_autograd(nullptr);
    detail::set_entries_watched(false);
  } catch (const c10::Error&) {
    log(Log::kBackward, "the capture stays installed because another thread is in a backward");
  }
}

/// Gives access to the nodes' warnings that the engine has kept. Where nobody captures, the engine replays them itself,
/// by a function that LibTorch does not export.
struct KeptWarnings {
  using type = std::vector<c10::Warning> ag::utils::DelayWarningHandler::*;
  friend type member_of(KeptWarnings);
};
template <class Tag, typename Tag::type member>
struct PrivateMember {
  friend typename Tag::type member_of(Tag) { return member; }
};
template struct PrivateMember<KeptWarnings, &ag::utils::DelayWarningHandler::warnings_>;

// Runs a task as the engine does when nobody captures.
ag::variable_list run_in_eager(const NodePtr& root, const ag::GraphTask& task) {
  const auto shared = const_cast<ag::GraphTask&>(task).shared_from_this();
  const auto future =
      ag::Engine::get_default_engine().execute_with_graph_task(shared, root, ag::InputBuffer(ag::variable_list()));
  future->wait();
  for (const c10::Warning& warning : shared->warning_handler_.*member_of(KeptWarnings())) c10::warn(warning);
  return future->value().toTensorVector();
}

void run_final_callbacks(ag::GraphTask& task) {
  // A callback may add another.
  for (size_t i = 0; i < task.final_callbacks_.size(); ++i) {
    const auto callback = task.final_callbacks_[i];
    callback();
  }
}

/// One run of a captured graph.
class CapturedRun {
 public:
  CapturedRun(const BackwardEntry& entry, const std::vector<detail::RunCall>& calls, bool keeps_graph)
      : entry_(entry), calls_(calls), keeps_graph_(keeps_graph) {}

  ag::variable_list run(std::vector<at::Tensor>&& inputs, bool records_gradients) {
    detail::EagerRun eager(calls_, entry_.trace.num_numbers, keeps_graph_, entry_.trace.dense);
    // If no user code runs on the way, nobody can see that what nodes have saved is released before the run.
    if (!entry_.trace.runs_user_code) release(calls_.size());
    try {
      ag::variable_list results = run_program(std::move(inputs), records_gradients);
      release(calls_.size());
      for (size_t i = 0; i < results.size(); ++i) {
        if (eager.is_undefined(entry_.trace.maybe_undefined[i])) results[i] = at::Tensor();
        detail::drop_history(results[i]);
      }
      return results;
    } catch (...) {
      release(eager.last_call());
      rethrow_users();
    }
  }

 private:
  ag::variable_list run_program(std::vector<at::Tensor>&& inputs, bool records_gradients) const {
    if (records_gradients) return entry_.program->run(std::move(inputs), {.differentiable = true});
    const RunBelowAutograd below;
    const detail::ProfiledRange range([this] { return name(); });
    return entry_.executable != nullptr ? entry_.executable->run(std::move(inputs))
                                        : entry_.program->run(std::move(inputs));
  }

  // The names of the nodes that the graph stands for, which the engine would have told the profiler one by one.
  std::string name() const {
    constexpr size_t kMostNamed = 8;
    std::vector<std::string> names;
    for (const auto& call : calls_) {
      if (call.needed && names.size() < kMostNamed) names.push_back(call.node->name());
    }
    const size_t num_left = calls_.size() - names.size();
    return fmt::format("diptych::backward {}{}", fmt::join(names, ", "),
                       num_left > 0 ? fmt::format(" and {} more", num_left) : "");
  }

  // Releases what the nodes before number `end`, which have run, have saved.
  void release(size_t end) const {
    if (keeps_graph_) return;
    for (size_t i = 0; i < end; ++i) {
      if (calls_[i].needed) calls_[i].node->release_variables();
    }
  }

  // Rethrows what a hook or a node threw, as the user threw it: the interpreter has wrapped it in an error that says
  // where.
  [[noreturn]] static void rethrow_users() {
    const auto error = std::current_exception();
    try {
      std::rethrow_exception(error);
    } catch (const std::exception& wrapped) {
      std::rethrow_if_nested(wrapped);
    }
    std::rethrow_exception(error);
  }

  const BackwardEntry& entry_;
  const std::vector<detail::RunCall>& calls_;
  bool keeps_graph_;
  /// Counts this run while it runs.
  struct Inside {
    Inside() { ++num_runs_in_progress; }
    ~Inside() { --num_runs_in_progress; }
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;
  } inside_;
};

/// What became of a run.
struct Outcome {
  const char* why_eager = nullptr;
  bool is_captured = false;  ///< a graph was traced for it
  std::optional<detail::BackwardCache::Miss> miss{};
  bool was_traced = false;  ///< to check that a graph is right for sizes that are new to it
};

void add(const Outcome& outcome, backward_capture::Statistics& statistics) {
  if (outcome.miss) {
    statistics.misses.push_back(outcome.miss->reason);
    ++statistics.misses_by_reason[outcome.miss->kind];
  }
  if (outcome.why_eager != nullptr) {
    ++statistics.eager;
    ++statistics.eager_by_reason[outcome.why_eager];
  } else {
    ++(outcome.is_captured ? statistics.captures : statistics.hits);
    statistics.size_checks += outcome.was_traced ? 1 : 0;
  }
}

/// The statistics of the process.
struct Totals {
  std::mutex mutex;
  backward_capture::Statistics statistics;
};

Totals& totals() {
  static auto* const instance = new Totals;
  return *instance;
}

void count(const Outcome& outcome) {
  {
    auto& all = totals();
    const std::lock_guard lock(all.mutex);
    add(outcome, all.statistics);
  }
  detail::GuardsOfThread::for_each(
      [&](backward_capture::Statistics& own, detail::RunGraphs& /*graphs*/) { add(outcome, own); });
}

// Returns the backend of a run that starts now; null if it is not captured.
const RunBackend* backend_here(const detail::PlannedEnding& planned) {
  // The engine also runs the backward of a function that is being captured itself.
  if (detail::is_tracing()) return nullptr;
  if (planned.ending != nullptr) return planned.backend;
  const RunBackend* const guards = detail::GuardsOfThread::backend();
  return guards != nullptr ? guards : switches().of_all_threads.load();
}

// Note [Backwards inside backwards]: a backward that a hook or a node starts is captured like any other, on the stack
// of the first. Deeper ones are left to the engine, which continues in another thread when a stack gets too deep.
constexpr size_t kMostNested = 8;

const char* why_in_eager(const ag::GraphTask& task) {
  // In anomaly mode the engine looks at what each node returns.
  if (ag::AnomalyMode::is_enabled()) return "anomaly mode";
  const auto num_outer = num_runs_in_progress + static_cast<size_t>(task.reentrant_depth_);
  if (num_outer >= kMostNested) return "backward runs are nested too deeply";
  return detail::why_thread_is_not_plain();
}

// Describes what else changes what nodes record; empty where all is as at the start of a program.
std::string surroundings() {
  const GlobalState state = GlobalState::current();
  std::string words;
  const auto add = [&](bool differs, std::string_view what, std::string_view how) {
    if (differs) words.append(words.empty() ? "" : ", ").append(what).append(how);
  };
  add(state.autocast_cpu, "autocast on CPU to ", c10::toString(state.autocast_cpu_dtype));
  add(state.autocast_cuda, "autocast on CUDA to ", c10::toString(state.autocast_cuda_dtype));
  add(state.default_dtype != at::kFloat, "default dtype ", c10::toString(state.default_dtype));
  add(at::globalContext().deterministicAlgorithms(), "deterministic algorithms", "");
  return words;
}

// A training step is what it is without a guard.
bool is_strict(const detail::PlannedEnding& planned) {
  if (planned.ending != nullptr) return false;
  return innermost_guard != nullptr ? detail::GuardsOfThread::is_strict() : switches().is_strict.load();
}

ag::variable_list run_counted_in_eager(const NodePtr& root, const ag::GraphTask& task, const char* why, bool strict) {
  log(Log::kBackward, "run in eager: {}", why);
  DIPTYCH_CHECK(!strict,
                "[backward] autograd's engine would run this backward itself: {}; expected one that can be captured, "
                "since strict is set; mend that, or leave the capture for it",
                why);
  count({why});
  return run_in_eager(root, task);
}

ag::variable_list run_graph(const detail::BackwardCache::Found& found, const std::vector<detail::RunCall>& calls,
                            const ag::GraphTask& task, detail::RunContents& contents) {
  const auto& [entry, symbols, miss, was_traced] = found;
  auto inputs = std::move(contents.compiler().tensor_args.inputs);
  for (const auto& input : contents.ending_inputs()) inputs.push_back(input.tensor);
  inputs.insert(inputs.end(), entry->trace.read.begin(), entry->trace.read.end());
  if (entry->pattern) inputs.push_back(detail::sizes_tensor(entry->pattern->num_symbols(), symbols));
  DIPTYCH_ASSERT(calls.size() == entry->names.size() && inputs.size() == entry->trace.graph.inputs().size(),
                 "a run of {} nodes with {} tensors has the graph of one of {} nodes with {} tensors", calls.size(),
                 inputs.size(), entry->names.size(), entry->trace.graph.inputs().size());
  detail::check_call(entry->program->graph(), inputs);
  return CapturedRun(*entry, calls, task.keep_graph_).run(std::move(inputs), c10::GradMode::is_enabled());
}

ag::variable_list run_planned(const NodePtr& root, const ag::GraphTask& task) {
  detail::leave_entry();
  // A run that starts inside this one has no ending.
  const detail::PlannedEnding planned = std::exchange(next_ending, {});
  detail::RunEnding* const ending = planned.ending;
  const RunBackend* const backend = backend_here(planned);
  if (backend == nullptr) return run_in_eager(root, task);
  auto& mutable_task = const_cast<ag::GraphTask&>(task);
  const at::ThreadLocalStateGuard state(mutable_task.thread_locals_);
  const bool strict = is_strict(planned);
  if (const char* why = why_in_eager(task)) return run_counted_in_eager(root, task, why, strict);
  auto calls = detail::calls_in_order(root, task);
  if (ending != nullptr) detail::hand_out_gradients(calls, ending->leaves());
  const size_t num_results = ending != nullptr ? ending->leaves().size() : task.captured_vars_.size();
  std::optional<detail::RunContents> contents;
  contents.emplace(calls, num_results, c10::GradMode::is_enabled(), surroundings(), *backend, ending);
  if (const char* why = contents->obstacle()) {
    contents.reset();
    return run_counted_in_eager(root, task, why, strict);
  }
  const auto found = detail::BackwardCache::instance().find(calls, *contents);
  last = found.entry;
  if (!found.entry->program) {
    contents.reset();
    constexpr const char* kWhy = "nodes that can't be replayed";
    if (strict) return run_counted_in_eager(root, task, kWhy, strict);
    count({kWhy, false, found.miss});
    return run_in_eager(root, task);
  }
  count({nullptr, found.miss.has_value(), found.miss, found.was_traced});
  detail::GuardsOfThread::for_each(
      [&](backward_capture::Statistics& /*own*/, detail::RunGraphs& graphs) { graphs.add(found.entry); });
  if (planned.graphs != nullptr) planned.graphs->add(found.entry);
  auto results = run_graph(found, calls, task, *contents);
  if (ending != nullptr) ending->take_results(std::exchange(results, {}));
  run_final_callbacks(mutable_task);
  return results;
}

ag::variable_list run_task(const NodePtr& root, const ag::GraphTask& task, bool /*accumulate*/,
                           const ag::edge_list& /*outputs*/) {
  return detail::called_by_engine([&] { return run_planned(root, task); });
}

}  // namespace

detail::EngineCapture::EngineCapture() { add_user(); }

detail::EngineCapture::~EngineCapture() { remove_user(); }

detail::EndingScope::EndingScope(RunEnding& ending, const RunBackend& backend, RunGraphs& graphs)
    : outer_(std::exchange(next_ending, {&ending, &backend, &graphs})) {}

detail::EndingScope::~EndingScope() { next_ending = outer_; }

BackwardCapture::BackwardCapture(const backward_capture::Options& options)
    : options_(options), backend_(chosen_backend(options_)), outer_(innermost_guard) {
  add_user();
  innermost_guard = this;
}

// Guards that are not on the stack may be destroyed in any order.
BackwardCapture::~BackwardCapture() {
  BackwardCapture** link = &innermost_guard;
  while (*link != nullptr && *link != this) link = &(*link)->outer_;
  if (*link != nullptr) *link = outer_;
  remove_user();
}

std::shared_ptr<const RunBackend> backward_capture::compiler_of(Compiler compile) {
  return detail::run_backend_of(std::move(compile));
}

// Threads may be in a run by what was enabled before, so compilers that were enabled are kept.
void backward_capture::enable(const Options& options) {
  static auto* const kept = new std::vector<std::shared_ptr<const RunBackend>>;
  const RunBackend& backend = chosen_backend(options);
  {
    const std::lock_guard lock(switches().mutex);
    if (options.compiler && std::find(kept->begin(), kept->end(), options.compiler) == kept->end())
      kept->push_back(options.compiler);
  }
  switches().is_strict = options.strict;
  if (switches().of_all_threads.exchange(&backend) != nullptr) return;
  try {
    add_user();
  } catch (...) {
    switches().of_all_threads = nullptr;
    throw;
  }
}

void backward_capture::disable() {
  if (switches().of_all_threads.exchange(nullptr) != nullptr) remove_user();
}

backward_capture::Statistics backward_capture::statistics() {
  const std::lock_guard lock(totals().mutex);
  return totals().statistics;
}

void backward_capture::reset() {
  detail::BackwardCache::instance().clear();
  const std::lock_guard lock(totals().mutex);
  totals().statistics = {};
}

std::vector<NativeGraph> backward_capture::native_graphs() {
  std::vector<NativeGraph> graphs;
  for (const auto& entry : detail::BackwardCache::instance().entries()) detail::add_native_graphs(*entry, graphs);
  return graphs;
}

Graph backward_capture::last_graph() {
  DIPTYCH_CHECK(last != nullptr && last->program != nullptr,
                "[backward] no captured backward has run on this thread; call backward() while a BackwardCapture is "
                "alive");
  return last->program->graph();
}

}  // namespace diptych
