#include "diptych/ops/treeverse.h"

#include <algorithm>
#include <limits>
#include <map>

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

/// Writes down what the recursion does.
class Schedule {
 public:
  Schedule(int64_t count, int64_t spare) {
    for (const int64_t segment : kept_in_forward(count, spare)) from_forward_.emplace(segment, num_places_++);
    if (count > 0) reverse(0, count, 0, spare);
  }
  std::vector<ReversalStep> take() { return std::move(steps_); }

 private:
  void reverse(int64_t from, int64_t to, int64_t place, int64_t spare) {
    if (to - from == 1 || spare == 0) {
      for (int64_t i = to; i-- > from;) steps_.push_back({place, from, i, -1, i});
      return;
    }
    const int64_t middle = from + first_part(to - from, spare);
    const int64_t kept = place_for(from, middle, place);
    reverse(middle, to, kept, spare - 1);
    free_.push_back(kept);
    reverse(from, middle, place, spare);
  }

  // Returns the place of the carry in front of `middle`, which is found from the one in front of `from`.
  int64_t place_for(int64_t from, int64_t middle, int64_t place) {
    if (const auto known = from_forward_.find(middle); known != from_forward_.end()) {
      const int64_t kept = known->second;
      from_forward_.erase(known);
      return kept;
    }
    int64_t kept = num_places_;
    if (free_.empty()) {
      ++num_places_;
    } else {
      kept = free_.back();
      free_.pop_back();
    }
    steps_.push_back({place, from, middle, kept, -1});
    return kept;
  }

  std::map<int64_t, int64_t> from_forward_;
  std::vector<int64_t> free_;
  int64_t num_places_ = 1;
  std::vector<ReversalStep> steps_;
};

}  // namespace

std::vector<ReversalStep> reversal_steps(int64_t count, int64_t spare) { return Schedule(count, spare).take(); }

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
