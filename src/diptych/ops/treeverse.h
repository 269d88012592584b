// When to keep what: reversing a chain of segments with few carries kept.
#pragma once
#include <cstdint>
#include <vector>

namespace diptych::detail {

/// Returns how many segments the first part has, when `count` segments are reversed with the carry in front of them
/// kept and `spare` more carries available: the chain is advanced over the first part and the carry kept there, the
/// second part is reversed with spare - 1 carries, then the first part with `spare`. Requires: count >= 2, spare >= 1.
/// Source: Griewank and Walther, "Algorithm 799: revolve", ACM TOMS 26 (2000); treeverse is Griewank's (1992).
int64_t first_part(int64_t count, int64_t spare);

/// Returns the segments in front of which a forward run keeps the carry, so that the reversal starts with all of them:
/// at most `spare`, ascending. The first segment is not among them.
std::vector<int64_t> kept_in_forward(int64_t count, int64_t spare);

/// One step of a reversal that is written down before it runs, for programs that do not recurse.
struct ReversalStep {
  int64_t load = 0;   ///< the place of the carry that it begins with, in front of segment `begin`
  int64_t begin = 0;  ///< it runs segments `begin` to `end` for their last carry alone
  int64_t end = 0;
  int64_t store = -1;    ///< the place for that carry; -1 for none
  int64_t segment = -1;  ///< which is then reversed, from that carry; -1 for none
};

/// Returns the steps that reverse `count` segments with `spare` carries kept besides the first, after a forward run
/// that kept those of kept_in_forward(). Places: 0 has the first carry, 1 and on those of the forward run, in order;
/// places are used again, so that there are at most `spare` + 1. Segments are reversed from the last to the first.
std::vector<ReversalStep> reversal_steps(int64_t count, int64_t spare);

/// Returns how many segments are run for their last carry alone when `count` are reversed after such a forward run.
int64_t advanced_segments(int64_t count, int64_t spare);

/// Returns a segment length that lets `length` steps be reversed with `carries` kept and no segment advanced over
/// twice.
int64_t default_segment(int64_t length, int64_t carries);

}  // namespace diptych::detail
