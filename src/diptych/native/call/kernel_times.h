// How long calls of one kernel take.
#pragma once
#include <cstdint>
#include <mutex>
#include <vector>

namespace diptych::detail {

/// The times of a kernel's calls, of which the last thousand are kept. Threads: any.
class KernelTimes {
 public:
  void add(int64_t ns);
  int64_t calls() const;
  /// Of those that are kept; 0 if there are none. Units: us.
  double median_us() const;

 private:
  mutable std::mutex mutex_;
  int64_t calls_ = 0;
  std::vector<int64_t> last_;
};

/// Whether calls are timed: whether a TimeKernels lives.
bool times_kernels();

}  // namespace diptych::detail
