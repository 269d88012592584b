// Drawing the progress bar.
#include "common/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace examples {
namespace {
constexpr int64_t kLineWidth = 30;
constexpr std::chrono::milliseconds kTerminalInterval{100};
constexpr std::chrono::seconds kFileInterval{10};
}  // namespace

std::string clock_text(double seconds) {
  const auto total = static_cast<int64_t>(std::max(seconds, 0.0) + 0.5);
  if (total >= 3600) return fmt::format("{}:{:02}:{:02}", total / 3600, total / 60 % 60, total % 60);
  return fmt::format("{}:{:02}", total / 60, total % 60);
}

Progress::Progress(std::string label, int64_t first, int64_t total, double units_per_step, std::string unit)
    : label_(std::move(label)),
      first_(first),
      step_(first),
      total_(total),
      units_per_step_(units_per_step),
      unit_(std::move(unit)),
      terminal_(::isatty(STDERR_FILENO) == 1),
      start_(Clock::now()),
      last_draw_(start_) {}

Progress::~Progress() {
  if (step_ > first_) draw(Clock::now());
  if (terminal_ && drawn_) std::fputc('\n', stderr);
}

void Progress::update(int64_t step, double loss) {
  step_ = step;
  loss_ = loss;
  const auto now = Clock::now();
  if (now - last_draw_ >= (terminal_ ? Clock::duration(kTerminalInterval) : Clock::duration(kFileInterval))) draw(now);
}

void Progress::note(const std::string& line) { fmt::print(stderr, "{}{}\n", terminal_ ? "\r\x1b[K" : "", line); }

std::string Progress::text() const {
  const double seconds = std::chrono::duration<double>(Clock::now() - start_).count();
  const auto done = static_cast<double>(step_ - first_);
  const auto filled = total_ > 0 ? kLineWidth * step_ / total_ : kLineWidth;
  const std::string bar = std::string(filled, '#') + std::string(kLineWidth - filled, '.');
  return fmt::format("{} [{}] {}/{}  loss {:.4f}  {:.0f} {}/s  {} left", label_, bar, step_, total_, loss_,
                     seconds > 0 ? done * units_per_step_ / seconds : 0.0, unit_,
                     done > 0 ? clock_text(seconds / done * static_cast<double>(total_ - step_)) : "?");
}

void Progress::draw(Clock::time_point now) {
  fmt::print(stderr, "{}{}{}", terminal_ ? "\r" : "", text(), terminal_ ? "\x1b[K" : "\n");
  std::fflush(stderr);
  drawn_ = true;
  last_draw_ = now;
}

}  // namespace examples
