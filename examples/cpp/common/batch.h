// What the data sets have in common: batches that depend on nothing but the seed and the step.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <string>

namespace examples {

/// The part of the data that a batch is drawn from.
enum class Part { kTrain, kValidation };

/// One batch: what the model reads and what it should say.
struct Batch {
  at::Tensor inputs;
  at::Tensor targets;
};

/// Reads a whole file. Errors: UserError if it is missing, no regular file, unreadable or empty; `who` opens the text.
std::string read_file(const std::filesystem::path& path, const std::string& who);

}  // namespace examples
