// What the data sets have in common: batches that depend on nothing but the seed and the step.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <random>
#include <string>

namespace examples {

/// The part of the data that a batch is drawn from.
enum class Part { kTrain, kValidation };

/// One batch: what the model reads and what it should say.
struct Batch {
  at::Tensor inputs;
  at::Tensor targets;
};

/// Random numbers for one batch. A batch is a function of (seed, step), so a resumed run draws what an uninterrupted
/// one would.
inline std::mt19937_64 batch_random(uint64_t seed, int64_t step, Part part) {
  std::seed_seq words{seed & 0xffffffff, seed >> 32, static_cast<uint64_t>(step), part == Part::kTrain ? 0ul : 1ul};
  return std::mt19937_64(words);
}

/// Reads a whole file. Errors: UserError if it is missing, no regular file, unreadable or empty; `who` opens the text.
std::string read_file(const std::filesystem::path& path, const std::string& who);

}  // namespace examples
