#include "diptych/distributed/process.h"

#include <ATen/ops/tensor.h>
#include <c10/core/GradMode.h>
#include <signal.h>
#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>

#include <cmath>
#include <exception>

#include "diptych/base/check.h"
#include "diptych/distributed/process_group.h"

namespace diptych::distributed {
namespace {

std::atomic<bool> is_member{false};

// Holds the one membership of the process.
struct Membership {
  Membership() {
    DIPTYCH_CHECK(!is_member.exchange(true),
                  "[distributed] this program has already joined its group; keep the first Process and pass it on");
  }
  ~Membership() { is_member = false; }
};

std::chrono::milliseconds timeout_of(const ProcessOptions& options) {
  constexpr double kLongest = 1e7;  // seconds
  DIPTYCH_CHECK(
      options.backend == "gloo",
      "[distributed] backend '{}' is not available: this build has only gloo, for the CPU; leave the option out",
      options.backend);
  DIPTYCH_CHECK(options.timeout > 0 && options.timeout <= kLongest,
                "[distributed] the timeout is {} s, expected more than 0 and up to {:g}", options.timeout, kLongest);
  return std::chrono::milliseconds(static_cast<int64_t>(std::ceil(options.timeout * 1000)));
}

// FNV-1a, cut to what stays positive and exact as a negated number.
int64_t digest(const std::string& text) {
  uint64_t hash = 14695981039346656037ULL;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  return static_cast<int64_t>(hash >> 2U);
}

// gloo writes to its sockets without MSG_NOSIGNAL: where the other end is gone, the default action of SIGPIPE would end
// this process before it could say why. A handler, unlike SIG_IGN, is not handed on to programs that this one starts.
void outlive_lost_peers() {
  struct sigaction found {};
  if (::sigaction(SIGPIPE, nullptr, &found) != 0 || found.sa_handler != SIG_DFL) return;
  struct sigaction handler {};
  handler.sa_handler = [](int) {};
  handler.sa_flags = SA_RESTART;
  ::sigaction(SIGPIPE, &handler, nullptr);
}

}  // namespace

struct Process::Group {
  Membership membership;
  std::shared_ptr<detail::GroupState> state;
  c10::intrusive_ptr<c10d::ProcessGroup> group;
  int exceptions = std::uncaught_exceptions();

  void all_reduce(at::Tensor& tensor, c10d::ReduceOp::RedOpType operation) const {
    std::vector<at::Tensor> tensors{tensor};
    group->allreduce(tensors, {.reduceOp = operation})->wait();
  }
};

const std::string& Process::group_name() {
  static const auto* const name = new std::string("diptych");
  return *name;
}

Process::Process(const ProcessOptions& options) : environment_(Environment::read()) {
  const auto timeout = timeout_of(options);
  outlive_lost_peers();
  group_ = std::make_unique<Group>();
  group_->state = std::make_shared<detail::GroupState>(environment_.rank, environment_.size);
  group_->group = detail::make_process_group(environment_, timeout, group_->state);
  group_->group->setGroupName(group_name());
  c10d::register_process_group(group_name(), group_->group);
}

// A process that left early would look like a lost one to those that are still in a collective.
Process::~Process() {
  if (!group_->state->has_failed() && std::uncaught_exceptions() == group_->exceptions) {
    try {
      barrier();
    } catch (const UserError&) {
      // Another process has failed, and says so itself.
    }
  }
  group_->state->abandon_works();
  c10d::unregister_process_group(group_name());
}

void Process::barrier() const { group_->group->barrier()->wait(); }

void Process::broadcast(const std::vector<at::Tensor>& tensors) const {
  const at::NoGradGuard no_grad;
  for (const at::Tensor& tensor : tensors) {
    std::vector<at::Tensor> whole{tensor.detach().contiguous()};
    group_->group->broadcast(whole)->wait();
    if (!whole[0].is_same(tensor) && !whole[0].is_alias_of(tensor)) tensor.detach().copy_(whole[0]);
  }
}

at::Tensor Process::all_reduce(const at::Tensor& tensor, Reduce reduce) const {
  const at::NoGradGuard no_grad;
  const bool is_mean = reduce == Reduce::kMean;
  DIPTYCH_CHECK(!is_mean || tensor.is_floating_point(),
                "[distributed] got a tensor of dtype {} to average, expected a floating-point one; convert it, or ask "
                "for the sum",
                c10::toString(tensor.scalar_type()));
  at::Tensor result = tensor.detach().clone(at::MemoryFormat::Contiguous);
  group_->all_reduce(result, c10d::ReduceOp::SUM);
  return is_mean ? result.div_(size()) : result;
}

void Process::check_same(const std::string& what, const std::string& text) const {
  const int64_t own = digest(text);
  at::Tensor ends = at::tensor({own, -own});
  group_->all_reduce(ends, c10d::ReduceOp::MAX);
  const auto* found = ends.const_data_ptr<int64_t>();
  DIPTYCH_CHECK(found[0] == -found[1],
                "[distributed] rank {} of {}: the processes disagree on {}; here: {}; start all of them with the same "
                "program and options",
                rank(), size(), what, text);
}

}  // namespace diptych::distributed
