// What a call of a kernel's code needs to know of its sizes.
#pragma once
#include <vector>

#include "diptych/native/schedule/schedule.h"

namespace diptych::detail {

inline constexpr int64_t kMostChunks = 64;
inline constexpr int64_t kMostPartialBytes = 8 << 20;  ///< of all chunks together

/// How many rows are shared out for these values of the kernel's symbols.
int64_t count_rows(const Schedule& schedule, const std::vector<int64_t>& symbols);

/// The partial results of final reductions. They depend on sizes alone, and so do the sums.
struct PartialSizes {
  int64_t chunks = 1;
  int64_t bytes = 0;             ///< of one chunk
  std::vector<int64_t> offsets;  ///< by final reduction, in a chunk's bytes
};
PartialSizes partial_sizes(const Schedule& schedule, const std::vector<int64_t>& symbols);

/// All parameters of the code: the symbols, and behind them what Schedule names so.
std::vector<int64_t> code_parameters(const Schedule& schedule, const std::vector<int64_t>& symbols);

}  // namespace diptych::detail
