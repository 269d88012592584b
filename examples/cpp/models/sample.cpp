#include "models/sample.h"

#include <ATen/CPUGeneratorImpl.h>
#include <fmt/format.h>
#include <torch/types.h>

#include <algorithm>

namespace examples {

std::string validation_loss(const TextData& text, const TrainOptions& options,
                            const std::function<at::Tensor(const Batch&)>& loss) {
  constexpr int64_t kBatches = 20;
  torch::NoGradGuard no_grad;
  double sum = 0;
  for (int64_t i = 0; i < kBatches; ++i) {
    sum += loss(text.batch(Part::kValidation, options.seed, i, options.batch)).item<double>();
  }
  return fmt::format("{:.4f} nats a character", sum / kBatches);
}

std::string sample_text(const TextData& text, const Logits& logits, int64_t block, int64_t length, uint64_t seed) {
  constexpr double kTemperature = 0.8;
  torch::NoGradGuard no_grad;
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  at::Tensor tokens = text.batch(Part::kValidation, seed, 0, 1).inputs.slice(1, 0, 1);
  for (int64_t i = 0; i < length; ++i) {
    const at::Tensor window = tokens.slice(1, std::max<int64_t>(0, tokens.size(1) - block));
    const at::Tensor scores = logits(window).select(1, -1) / kTemperature;
    tokens = at::cat({tokens, at::multinomial(scores.softmax(-1), 1, /*replacement=*/false, generator)}, 1);
  }
  return "\n" + text.decode(tokens);
}

}  // namespace examples
