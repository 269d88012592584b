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

/// Returns how many segments are run for their last carry alone when `count` are reversed after such a forward run.
int64_t advanced_segments(int64_t count, int64_t spare);

/// Returns a segment length that lets `length` steps be reversed with `carries` kept and no segment advanced over
/// twice.
int64_t default_segment(int64_t length, int64_t carries);

}  // namespace diptych::detail
