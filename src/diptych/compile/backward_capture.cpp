#include "diptych/compile/backward_capture.h"

#include <ATen/ThreadLocalState.h>
#include <torch/csrc/autograd/anomaly_mode.h>
#include <torch/csrc/autograd/engine.h>

#include <mutex>
#include <unordered_set>

#include "diptych/autodiff/backward_trace.h"
#include "diptych/base/error.h"
#include "diptych/base/switches.h"
#include "diptych/compile/backward_cache.h"
#include "diptych/compile/ending_scope.h"
#include "diptych/compile/engine_entry.h"
#include "diptych/compile/sizes_slot.h"
#include "diptych/interpreter/run_guards.h"
#include "diptych/trace/recorder.h"

namespace diptych {
namespace {

namespace ag = torch::autograd;
using detail::BackwardEntry;
using NodePtr = c10::intrusive_ptr<ag::Node>;

/// Who captures: threads with a guard, or all of them.
struct Switches {
  std::mutex mutex;
  size_t count = 0;  ///< guards of all threads, and 1 for enable()
  std::atomic<bool> all_threads{false};
};

Switches& switches() {
  static auto* const instance = new Switches;
  return *instance;
}

thread_local size_t guards = 0;
thread_local std::shared_ptr<const BackwardEntry> last;
thread_local detail::PassEnding* next_ending = nullptr;  ///< of the pass that starts next

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

// The engine refuses while another thread is in a backward; then the next one to leave does it.
void remove_user() noexcept {
  auto& state = switches();
  const std::lock_guard lock(state.mutex);
  if (--state.count > 0) return;
  try {
    ag::Engine::set_compiled_autograd(nullptr);
    detail::set_entries_watched(false);
  } catch (const c10::Error&) {
    log(Log::kBackward, "capture stays installed, as another thread is in a backward");
  }
}

// What the engine does with a task that nobody captures.
ag::variable_list run_in_eager(const NodePtr& root, const ag::GraphTask& task) {
  const auto shared = const_cast<ag::GraphTask&>(task).shared_from_this();
  const auto future =
      ag::Engine::get_default_engine().execute_with_graph_task(shared, root, ag::InputBuffer(ag::variable_list()));
  future->wait();
  return future->value().toTensorVector();
}

void run_final_callbacks(ag::GraphTask& task) {
  // A callback may add another.
  for (size_t i = 0; i < task.final_callbacks_.size(); ++i) {
    const auto callback = task.final_callbacks_[i];
    callback();
  }
}

/// One pass through a graph that is there.
class CapturedPass {
 public:
  CapturedPass(const BackwardEntry& entry, const std::vector<detail::TaskCall>& calls, bool keeps_graph)
      : entry_(entry), calls_(calls), keeps_graph_(keeps_graph) {}

  ag::variable_list run(std::vector<at::Tensor>&& inputs, bool records_gradients) {
    detail::LiveRun live(calls_, entry_.trace.num_numbers, keeps_graph_, entry_.trace.dense);
    // Where nobody's code runs on the way, nobody can see that what nodes have saved is let go before.
    if (!entry_.trace.runs_user_code) release(calls_.size());
    try {
      ag::variable_list results = run_program(std::move(inputs), records_gradients);
      release(calls_.size());
      for (size_t i = 0; i < results.size(); ++i) {
        if (live.is_undefined(entry_.trace.origins[i])) results[i] = at::Tensor();
        detail::drop_history(results[i]);
      }
      return results;
    } catch (...) {
      release(live.last_call());
      rethrow_users();
    }
  }

 private:
  ag::variable_list run_program(std::vector<at::Tensor>&& inputs, bool records_gradients) const {
    if (records_gradients) return entry_.program->run(std::move(inputs), {.differentiable = true});
    const RunBelowAutograd below;
    return entry_.program->run(std::move(inputs));
  }

  // Nodes in front of number `end` have run.
  void release(size_t end) const {
    if (keeps_graph_) return;
    for (size_t i = 0; i < end; ++i) {
      if (calls_[i].needed) calls_[i].node->release_variables();
    }
  }

  // What a hook or a node threw, as the user threw it: the interpreter wraps it in where it was.
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
  const std::vector<detail::TaskCall>& calls_;
  bool keeps_graph_;
};

bool captures_here(const detail::PassEnding* ending) {
  const bool wanted = ending != nullptr || guards > 0 || switches().all_threads;
  // The engine also runs the backward of a function that is being captured itself. In anomaly mode it looks at what
  // each node gives.
  return wanted && !detail::is_tracing() && !ag::AnomalyMode::is_enabled();
}

ag::variable_list run_task(const NodePtr& root, const ag::GraphTask& task, bool /*accumulate*/,
                           const ag::edge_list& /*outputs*/) {
  detail::leave_entry();
  // A pass that starts inside this one has none.
  detail::PassEnding* const ending = std::exchange(next_ending, nullptr);
  if (!captures_here(ending)) return run_in_eager(root, task);
  auto& mutable_task = const_cast<ag::GraphTask&>(task);
  const at::ThreadLocalStateGuard state(mutable_task.thread_locals_);
  const bool records_gradients = c10::GradMode::is_enabled();
  auto calls = detail::calls_in_order(root, task);
  if (ending != nullptr) detail::hand_out_gradients(calls, ending->leaves());
  const size_t num_results = ending != nullptr ? ending->leaves().size() : task.captured_vars_.size();
  detail::TaskContents contents(calls, num_results, records_gradients, ending);
  if (!contents.can_be_captured()) return run_in_eager(root, task);
  const auto [entry, symbols] = detail::BackwardCache::instance().find(calls, contents);
  last = entry;
  if (!entry->program) return run_in_eager(root, task);
  auto inputs = std::move(contents.compiler().tensor_args.inputs);
  for (const auto& input : contents.ending_inputs()) inputs.push_back(input.tensor);
  if (entry->pattern) inputs.push_back(detail::sizes_tensor(entry->pattern->num_symbols(), symbols));
  auto results = CapturedPass(*entry, calls, task.keep_graph_).run(std::move(inputs), records_gradients);
  if (ending != nullptr) ending->take_results(std::exchange(results, {}));
  run_final_callbacks(mutable_task);
  return results;
}

}  // namespace

detail::EngineCapture::EngineCapture() { add_user(); }

detail::EngineCapture::~EngineCapture() { remove_user(); }

detail::EndingScope::EndingScope(PassEnding& ending) : outer_(std::exchange(next_ending, &ending)) {}

detail::EndingScope::~EndingScope() { next_ending = outer_; }

BackwardCapture::BackwardCapture() {
  add_user();
  ++guards;
}

BackwardCapture::~BackwardCapture() {
  --guards;
  remove_user();
}

void backward_capture::enable() {
  if (switches().all_threads.exchange(true)) return;
  try {
    add_user();
  } catch (...) {
    switches().all_threads = false;
    throw;
  }
}

void backward_capture::disable() {
  if (switches().all_threads.exchange(false)) remove_user();
}

backward_capture::Statistics backward_capture::statistics() { return detail::BackwardCache::instance().statistics(); }

void backward_capture::reset() { detail::BackwardCache::instance().clear(); }

Graph backward_capture::last_graph() {
  DIPTYCH_CHECK(last != nullptr && last->program != nullptr,
                "[backward] no captured backward has run on this thread; call backward() while a BackwardCapture is "
                "alive");
  return last->program->graph();
}

}  // namespace diptych
