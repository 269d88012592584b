#include "diptych/native/call/kernel_times.h"

#include <algorithm>
#include <atomic>

#include "diptych/native/native_graph.h"

namespace diptych {
namespace detail {
namespace {

constexpr size_t kKept = 1000;

std::atomic<int> timers{0};

}  // namespace

void KernelTimes::add(int64_t ns) {
  const std::lock_guard lock(mutex_);
  if (last_.size() < kKept) {
    last_.push_back(ns);
  } else {
    last_[static_cast<size_t>(calls_) % kKept] = ns;
  }
  ++calls_;
}

int64_t KernelTimes::calls() const {
  const std::lock_guard lock(mutex_);
  return calls_;
}

double KernelTimes::median_us() const {
  const std::lock_guard lock(mutex_);
  if (last_.empty()) return 0;
  std::vector<int64_t> sorted = last_;
  const auto middle = sorted.begin() + static_cast<int64_t>(sorted.size() / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  return static_cast<double>(*middle) / 1e3;
}

bool times_kernels() { return timers.load(std::memory_order_relaxed) > 0; }

}  // namespace detail

TimeKernels::TimeKernels() { ++detail::timers; }

TimeKernels::~TimeKernels() { --detail::timers; }

}  // namespace diptych
