#include "diptych/distributed/process_group.h"

#include <fmt/format.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <cstdlib>

#include "diptych/base/error.h"

namespace diptych::distributed::detail {
namespace {

// Returns the first sentence of an error from c10d or Gloo, without the place in their sources where it was thrown.
std::string words_of(const std::exception& error) {
  const auto* from_torch = dynamic_cast<const c10::Error*>(&error);
  std::string text = from_torch != nullptr ? from_torch->what_without_backtrace() : error.what();
  if (text.starts_with('[')) {
    const size_t end = text.find("] ");
    if (end != std::string::npos) text.erase(0, end + 2);
  }
  return text.substr(0, std::min(text.find(". "), text.find('\n')));
}

/// A collective in flight, whose failure is reported in the user's terms.
class ReportingWork final : public c10d::Work {
 public:
  ReportingWork(c10::intrusive_ptr<c10d::Work> work, std::shared_ptr<GroupState> state)
      : Work(state->rank(), work->retrieveOpType()), work_(std::move(work)), state_(std::move(state)) {}

  bool isCompleted() override { return work_->isCompleted(); }
  bool isSuccess() const override { return work_->isSuccess(); }
  std::exception_ptr exception() const override { return work_->exception(); }
  std::vector<at::Tensor> result() override { return work_->result(); }
  void synchronize() override { work_->synchronize(); }
  void abort() override { work_->abort(); }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return work_->getFuture(); }
  uint64_t getSequencenumber() const override { return work_->getSequencenumber(); }
  bool wait(std::chrono::milliseconds timeout) override {
    state_->remove(*this);
    try {
      return work_->wait(timeout);
    } catch (const std::exception& error) {
      state_->report(c10d::opTypeToString(opType_), error);
    }
  }

 private:
  c10::intrusive_ptr<c10d::Work> work_;
  std::shared_ptr<GroupState> state_;
};

/// A backend whose collectives report: all collectives come through it, from graphs and from a Process alike.
class ReportingBackend final : public c10d::Backend {
 public:
  ReportingBackend(c10::intrusive_ptr<c10d::Backend> backend, std::shared_ptr<GroupState> state)
      : Backend(state->rank(), state->size()), backend_(std::move(backend)), state_(std::move(state)) {}

  // NOLINTNEXTLINE(readability-const-return-type): as c10d declares it
  const std::string getBackendName() const override { return backend_->getBackendName(); }
  c10::intrusive_ptr<Options> getBackendOptions() override { return backend_->getBackendOptions(); }
  void setTimeout(std::chrono::milliseconds timeout) override { backend_->setTimeout(timeout); }
  void setSequenceNumberForGroup() override { backend_->setSequenceNumberForGroup(); }
  uint64_t getSequenceNumberForGroup() override { return backend_->getSequenceNumberForGroup(); }

  using Work = c10::intrusive_ptr<c10d::Work>;
  using Tensors = std::vector<at::Tensor>;
  Work allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override {
    return issue("ALLREDUCE", [&] { return backend_->allreduce(tensors, options); });
  }
  Work broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override {
    return issue("BROADCAST", [&] { return backend_->broadcast(tensors, options); });
  }
  Work allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                       const c10d::AllgatherOptions& options) override {
    return issue("ALLGATHER", [&] { return backend_->allgather_into_tensor_coalesced(outputs, inputs, options); });
  }
  Work reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                       const c10d::ReduceScatterOptions& options) override {
    return issue("REDUCE_SCATTER", [&] { return backend_->reduce_scatter_tensor_coalesced(outputs, inputs, options); });
  }
  Work barrier(const c10d::BarrierOptions& options) override {
    return issue("BARRIER", [&] { return backend_->barrier(options); });
  }

 private:
  template <class Issue>
  Work issue(const char* what, Issue&& collective) {
    try {
      auto work = c10::make_intrusive<ReportingWork>(collective(), state_);
      state_->add(work);
      return work;
    } catch (const std::exception& error) {
      state_->report(what, error);
    }
  }

  c10::intrusive_ptr<c10d::Backend> backend_;
  std::shared_ptr<GroupState> state_;
};

c10::intrusive_ptr<c10d::Store> make_store(const Environment& environment, std::chrono::milliseconds timeout) {
  c10d::TCPStoreOptions options;
  options.port = environment.port;
  options.isServer = environment.rank == 0 && !environment.launcher_keeps_store;
  options.numWorkers = environment.size;
  options.waitWorkers = !environment.launcher_keeps_store;
  options.timeout = timeout;
  const auto store = c10::make_intrusive<c10d::TCPStore>(environment.address, options);
  // A launcher's store outlives a restart, and so does what was written before it.
  return c10::make_intrusive<c10d::PrefixStore>("diptych/" + std::to_string(environment.restart), store);
}

// Gloo's connections: by the interface that torchrun's users name, by the loopback on one machine, or by the address
// that this machine's name resolves to.
auto make_device(const Environment& environment) {
  if (const char* interface = std::getenv("GLOO_SOCKET_IFNAME"); interface != nullptr && *interface != '\0') {
    return c10d::ProcessGroupGloo::createDeviceForInterface(interface);
  }
  if (environment.local_size == environment.size) return c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1");
  return c10d::ProcessGroupGloo::createDefaultDevice();
}

}  // namespace

void GroupState::report(const std::string& what, const std::exception& error) {
  has_failed_ = true;
  diptych::detail::throw_user_error(
      fmt::format("[distributed] rank {} of {}: a collective failed ({}): {}; another process probably ended or "
                  "stopped answering, see its output; restart all of them from the last checkpoint",
                  rank_, size_, what, words_of(error)));
}

void GroupState::add(c10::intrusive_ptr<c10d::Work> work) {
  const std::lock_guard lock(mutex_);
  works_.push_back(std::move(work));
}

void GroupState::remove(const c10d::Work& work) {
  const std::lock_guard lock(mutex_);
  std::erase_if(works_, [&](const auto& known) { return known.get() == &work; });
}

void GroupState::abandon_works() {
  const std::lock_guard lock(mutex_);
  for (const auto& work : works_) c10d::unregister_work(work);
  works_.clear();
}

c10::intrusive_ptr<c10d::ProcessGroup> make_process_group(const Environment& environment,
                                                          std::chrono::milliseconds timeout,
                                                          const std::shared_ptr<GroupState>& state) {
  try {
    const auto store = make_store(environment, timeout);
    auto options = c10d::ProcessGroupGloo::Options::create(timeout);
    options->devices.push_back(make_device(environment));
    const auto gloo =
        c10::make_intrusive<c10d::ProcessGroupGloo>(store, environment.rank, environment.size, std::move(options));
    auto group = c10::make_intrusive<c10d::ProcessGroup>(store, environment.rank, environment.size);
    group->setBackend(c10::kCPU, c10d::ProcessGroup::GLOO, c10::make_intrusive<ReportingBackend>(gloo, state));
    group->setDefaultBackend(c10d::ProcessGroup::GLOO);
    return group;
  } catch (const std::exception& error) {
    throw UserError(
        fmt::format("[distributed] rank {} of {} did not meet the others at {}:{} within {} s: {}; check that all "
                    "processes run, that rank 0 can be reached there, and that the port is free",
                    environment.rank, environment.size, environment.address, environment.port,
                    std::chrono::duration<double>(timeout).count(), words_of(error)));
  }
}

}  // namespace diptych::distributed::detail
