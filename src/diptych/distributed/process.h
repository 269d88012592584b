// One of the processes that train a model together, and what they do together outside graphs.
#pragma once
#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

#include "diptych/distributed/environment.h"

namespace diptych::distributed {

struct ProcessOptions {
  double timeout = 300;          ///< seconds that a process waits for the others: to meet them, and in a collective
  std::string backend = "gloo";  ///< the transport; gloo is the one there is, over TCP
};

enum class Reduce { kSum, kMean };

/// This process as a member of the group that a launcher started (diptych_launch, torchrun). The destructor ends the
/// membership once the others have come to the same place; it does not wait for them while an exception is in flight.
/// Collectives are called by all processes, in the same order. Threads: one at a time. Errors: collectives throw
/// UserError if another process has ended or does not answer in time; so that they can, SIGPIPE no longer ends the
/// program from the first membership on, unless the program has set what it does.
class Process {
 public:
  /// Meets the others. Errors: UserError names the environment variable that is missing or wrong, an unknown backend,
  /// or who was not met; also if this process is a member already.
  explicit Process(const ProcessOptions& options = {});
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  int rank() const { return environment_.rank; }
  int size() const { return environment_.size; }
  const Environment& environment() const { return environment_; }
  /// The name by which operators of `_c10d_functional`, in graphs too, find the group.
  static const std::string& group_name();

  /// Returns when all processes have called it.
  void barrier() const;

  /// Copies the elements that the tensors have on rank 0 to all processes, in place. Shapes: any, the same everywhere.
  void broadcast(const std::vector<at::Tensor>& tensors) const;
  /// Does the same for a module's parameters and buffers.
  template <class Module>
  requires requires(const Module& module) { module.parameters(), module.buffers(); }
  void broadcast(const Module& module) const {
    broadcast(module.parameters());
    broadcast(module.buffers());
  }

  /// Returns the sum or mean of all processes' tensors, as a new tensor. Errors: UserError for the mean of integers.
  at::Tensor all_reduce(const at::Tensor& tensor, Reduce reduce = Reduce::kMean) const;

  /// Checks that `text` is the same on all processes; `what` names it in the error. Errors: UserError, on all
  /// processes.
  void check_same(const std::string& what, const std::string& text) const;

 private:
  struct Group;
  Environment environment_;
  std::unique_ptr<Group> group_;
};

/// Becomes a member of the group that the launcher started.
///
///   const auto process = dp::distributed::init();
///   process.broadcast(parameters);
inline Process init(const ProcessOptions& options = {}) { return Process(options); }

}  // namespace diptych::distributed
