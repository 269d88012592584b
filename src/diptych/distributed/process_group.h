// The c10d process group behind a Process: how the processes meet, and what a lost one looks like to the others.
#pragma once
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>

#include "diptych/distributed/environment.h"

namespace diptych::distributed::detail {

/// Who speaks, in the errors of a group.
struct Speaker {
  int rank = 0;
  int size = 1;
  std::atomic<bool> has_failed{false};  ///< whether a collective has failed: the processes no longer agree

  /// Throws what `error` means for the user. Errors: UserError.
  [[noreturn]] void report(const std::string& what, const std::exception& error);
};

/// Meets the other processes, and makes a group of them over TCP, by Gloo. What its collectives throw, when they are
/// issued or waited for, is a UserError that names this process. Errors: UserError if the processes don't meet in time.
c10::intrusive_ptr<c10d::ProcessGroup> make_process_group(const Environment& environment,
                                                          std::chrono::milliseconds timeout,
                                                          const std::shared_ptr<Speaker>& speaker);

}  // namespace diptych::distributed::detail
