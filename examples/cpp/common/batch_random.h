// What a batch is drawn with. This is a separate header because <random> is slow to compile.
#pragma once
#include <random>

#include "common/batch.h"

namespace examples {

/// Random numbers for one batch. A batch is a function of (seed, step), so a resumed run draws what an uninterrupted
/// one would.
inline std::mt19937_64 batch_random(uint64_t seed, int64_t step, Part part) {
  std::seed_seq words{seed & 0xffffffff, seed >> 32, static_cast<uint64_t>(step), part == Part::kTrain ? 0ul : 1ul};
  return std::mt19937_64(words);
}

}  // namespace examples
