// A progress bar on standard error: rewritten in place on a terminal, a line now and then where output goes to a file.
#pragma once
#include <chrono>
#include <cstdint>
#include <string>

namespace examples {

/// Shows how far a loop is, with its loss, speed and the time left. Draws at most ten times a second.
class Progress {
 public:
  /// A loop of steps `first`..`total`, each of `units_per_step` tokens, images, ...
  Progress(std::string label, int64_t first, int64_t total, double units_per_step, std::string unit);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress();

  /// Tells that `step` steps are done and what the last one's loss was.
  void update(int64_t step, double loss);

  /// Writes a line that stays, above the bar.
  void note(const std::string& line);

 private:
  using Clock = std::chrono::steady_clock;
  std::string text() const;
  void draw(Clock::time_point now);

  std::string label_;
  int64_t first_, step_, total_;
  double units_per_step_;
  std::string unit_;
  double loss_ = 0;
  bool terminal_;
  bool drawn_ = false;
  Clock::time_point start_, last_draw_;
};

/// "1:05" or "2:03:04" for a number of seconds.
std::string clock_text(double seconds);

}  // namespace examples
