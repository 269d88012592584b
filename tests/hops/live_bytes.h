// How many bytes a thread holds: for tests of what is kept, and of what a step needs at once.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>
#include <memory>

namespace diptych::testing {

/// Counts, while it lives, the bytes that this thread allocates and does not free.
class LiveBytes {
 public:
  LiveBytes() : counter_(std::make_shared<Counter>()), guard_(c10::DebugInfoKind::PROFILER_STATE, counter_) {}
  int64_t now() const { return counter_->live; }
  int64_t peak() const { return counter_->peak; }

 private:
  struct Counter : c10::MemoryReportingInfoBase {
    void reportMemoryUsage(void*, int64_t size, size_t, size_t, c10::Device) override {
      live += size;
      peak = std::max(peak, live);
    }
    bool memoryProfilingEnabled() const override { return true; }
    int64_t live = 0, peak = 0;
  };
  std::shared_ptr<Counter> counter_;
  c10::DebugInfoGuard guard_;
};

/// The most that `once` holds at a time.
template <class F>
int64_t peak_bytes(F&& once) {
  const LiveBytes bytes;
  once();
  return bytes.peak();
}

}  // namespace diptych::testing
