// What is asked of a trained language model: its loss on text that it has not seen, and a text of its own.
#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <string>

#include "common/program.h"
#include "common/text_data.h"

namespace examples {

/// Scores of each next token. Shapes: i64[1, length] -> f32[1, length, vocabulary].
using Logits = std::function<at::Tensor(const at::Tensor& tokens)>;

/// Mean loss over 20 batches of the validation part.
std::string validation_loss(const TextData& text, const TrainOptions& options,
                            const std::function<at::Tensor(const Batch&)>& loss);

/// Draws `length` characters, each from the model's scores after at most `block` characters before it. The same seed
/// gives the same text; torch's default generator is left alone.
std::string sample_text(const TextData& text, const Logits& logits, int64_t block, int64_t length, uint64_t seed);

}  // namespace examples
