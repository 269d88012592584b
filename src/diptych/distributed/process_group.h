// The c10d process group behind a Process: how the processes meet, and what a lost one looks like to the others.
#pragma once
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "diptych/distributed/environment.h"

namespace diptych::distributed::detail {

/// What the collectives of a group share. Threads: any.
class GroupState {
 public:
  GroupState(int rank, int size) : rank_(rank), size_(size) {}

  int rank() const { return rank_; }
  int size() const { return size_; }
  /// Whether a collective has failed: the processes no longer agree.
  bool has_failed() const { return has_failed_; }

  /// Throws what `error` means for the user. Errors: UserError.
  [[noreturn]] void report(const std::string& what, const std::exception& error);

  /// Keeps a collective from when it is issued until it is waited for.
  void add(c10::intrusive_ptr<c10d::Work> work);
  void remove(const c10d::Work& work);
  /// Forgets the collectives that nobody will wait for any more; LibTorch would warn of them at the program's end.
  void abandon_works();

 private:
  int rank_, size_;
  std::atomic<bool> has_failed_{false};
  std::mutex mutex_;
  std::vector<c10::intrusive_ptr<c10d::Work>> works_;
};

/// Meets the other processes, and makes a group of them over TCP, with Gloo. Its collectives throw a UserError that
/// names this process, when they are issued or waited for. Errors: UserError if the processes don't meet in time.
c10::intrusive_ptr<c10d::ProcessGroup> make_process_group(const Environment& environment,
                                                          std::chrono::milliseconds timeout,
                                                          const std::shared_ptr<GroupState>& state);

}  // namespace diptych::distributed::detail
