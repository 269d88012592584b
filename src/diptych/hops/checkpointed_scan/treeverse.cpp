#include "diptych/hops/checkpointed_scan/treeverse.h"

#include <algorithm>
#include <limits>

namespace diptych::detail {
namespace {

// Returns how many segments can be reversed with `spare` carries besides the first, with none advanced over more than
// `times` times: binomial(spare + 1 + times, times), or a large number.
int64_t reach(int64_t spare, int64_t times) {
  if (times < 0) return 0;
  double value = 1;
  for (int64_t i = 1; i <= times; ++i) value = value * static_cast<double>(spare + 1 + i) / static_cast<double>(i);
  return value < 1e15 ? static_cast<int64_t>(value + 0.5) : std::numeric_limits<int64_t>::max() / 4;
}

}  // namespace

int64_t first_part(int64_t count, int64_t spare) {
  int64_t times = 0;
  while (reach(spare, times) < count) ++times;
  const int64_t most = std::min(reach(spare, times - 1), count - reach(spare - 1, times - 1));
  return std::clamp<int64_t>(most, 1, count - 1);
}

std::vector<int64_t> kept_in_forward(int64_t count, int64_t spare) {
  std::vector<int64_t> kept;
  int64_t from = 0;
  for (; spare > 0 && count - from >= 2; --spare) {
    from += first_part(count - from, spare);
    kept.push_back(from);
  }
  return kept;
}

int64_t advanced_segments(int64_t count, int64_t spare) {
  // Segments that the forward run has already advanced over are not counted.
  int64_t total = 0;
  const auto reverse = [&](auto&& self, int64_t number, int64_t left, bool in_forward) -> void {
    if (number <= 1) return;
    if (left == 0) {
      total += number * (number - 1) / 2;
      return;
    }
    const int64_t first = first_part(number, left);
    if (!in_forward) total += first;
    self(self, number - first, left - 1, in_forward);
    self(self, first, left, false);
  };
  reverse(reverse, count, spare, true);
  return total;
}

int64_t default_segment(int64_t length, int64_t carries) {
  const int64_t segments = reach(std::max<int64_t>(carries - 1, 0), 1);
  return std::max<int64_t>(1, (length + segments - 1) / segments);
}

}  // namespace diptych::detail
