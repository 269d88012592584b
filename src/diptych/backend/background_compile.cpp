#include "diptych/backend/background_compile.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "diptych/backend/interpreter_backend.h"
#include "diptych/base/log.h"
#include "diptych/interpreter/run_guards.h"

namespace diptych::detail {
namespace {

std::atomic<std::shared_ptr<void> (*)()> release_host{nullptr};

std::shared_ptr<void> released_host() {
  const auto release = release_host.load();
  return release == nullptr ? nullptr : release();
}

// One compiler at work.
class Job {
 public:
  Job(Compiler compile, const Graph& graph, std::string name)
      : compile_(std::move(compile)), graph_(graph), name_(std::move(name)), thread_([this] { run(); }) {}

  void wait() {
    if (is_joined()) return;
    const auto released = released_host();
    const std::lock_guard lock(mutex_);
    if (thread_.joinable()) thread_.join();
    is_joined_.store(true, std::memory_order_release);
  }
  bool is_joined() const { return is_joined_.load(std::memory_order_acquire); }
  bool is_done() const { return is_done_.load(std::memory_order_acquire); }
  /// Null while it is at work, and if it failed.
  const Executable* ready() const { return ready_.load(std::memory_order_acquire); }
  std::shared_ptr<const Executable> made() const { return ready() == nullptr ? nullptr : made_; }

 private:
  void run() {
    try {
      const RunBelowAutograd guard;
      made_ = compile_(graph_);
      ready_.store(made_.get(), std::memory_order_release);
    } catch (const std::exception& error) {
      report(error.what());
    } catch (...) {
      report("an unknown exception");
    }
    is_done_.store(true, std::memory_order_release);
  }

  void report(const char* what) const {
    log(Log::kGraphs, "the interpreter runs graph '{}', which backend {} could not compile in the background: {}",
        graph_.name(), name_, what);
  }

  const Compiler compile_;
  const Graph graph_;
  const std::string name_;
  std::shared_ptr<const Executable> made_;
  std::atomic<const Executable*> ready_{nullptr};
  std::atomic<bool> is_done_{false}, is_joined_{false};
  std::mutex mutex_;
  std::thread thread_;  // the last, since it uses all others
};

// The jobs of this process, for whoever waits for them all.
struct Jobs {
  std::mutex mutex;
  std::set<std::shared_ptr<Job>> all;
};

Jobs& jobs() {
  static auto* const known = new Jobs;
  return *known;
}

std::shared_ptr<Job> start(Compiler compile, const Graph& graph, const std::string& name) {
  static const int registered = std::atexit(wait_for_background);
  (void)registered;
  const std::lock_guard lock(jobs().mutex);  // before its thread begins: whoever waits for all then finds it
  auto job = std::make_shared<Job>(std::move(compile), graph, name);
  jobs().all.insert(job);
  return job;
}

class BackgroundExecutable final : public Executable {
 public:
  BackgroundExecutable(const Compiler& compile, const Graph& graph, const std::string& name)
      : interpreter_(InterpreterBackend().compile(graph)), job_(start(compile, graph, name)) {}
  ~BackgroundExecutable() override {
    job_->wait();
    const std::lock_guard lock(jobs().mutex);
    jobs().all.erase(job_);
  }

  std::vector<at::Tensor> run(std::vector<at::Tensor>&& inputs) const override {
    if (const Executable* ready = job_->ready()) return ready->run(std::move(inputs));
    return interpreter_->run(std::move(inputs));
  }
  std::vector<std::shared_ptr<const Executable>> parts() const override {
    auto made = job_->made();
    return made == nullptr ? std::vector<std::shared_ptr<const Executable>>{} : std::vector{std::move(made)};
  }
  bool is_compiling() const { return !job_->is_done(); }

 private:
  std::shared_ptr<const Executable> interpreter_;
  std::shared_ptr<Job> job_;
};

}  // namespace

Compiler in_background(Compiler compile, std::string name) {
  return [compile = std::move(compile), name = std::move(name)](const Graph& graph) {
    return std::make_shared<const BackgroundExecutable>(compile, graph, name);
  };
}

bool is_compiling(const Executable& executable) {
  const auto* background = dynamic_cast<const BackgroundExecutable*>(&executable);
  return background != nullptr && background->is_compiling();
}

void wait_for_background() {
  std::set<std::shared_ptr<Job>> all;
  {
    const std::lock_guard lock(jobs().mutex);
    all = jobs().all;
  }
  for (const auto& job : all) job->wait();
}

void set_release_host(std::shared_ptr<void> (*release)()) { release_host.store(release); }

}  // namespace diptych::detail
