// A stopwatch.
#pragma once
#include <chrono>

namespace examples {

/// Measures the time between calls.
class Lap {
 public:
  /// Seconds since the last call, or since it was made.
  double seconds() {
    const auto now = std::chrono::steady_clock::now();
    const double passed = std::chrono::duration<double>(now - last_).count();
    last_ = now;
    return passed;
  }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

}  // namespace examples
