// The handwritten digits of data/digits.csv: 8x8 grey images and the digit that each shows.
#pragma once
#include <functional>
#include <vector>

#include "common/batch.h"
#include "common/finding.h"

namespace examples {

/// All images, in memory. The last sixth is kept for validation.
class DigitsData {
 public:
  /// Reads lines of 64 grey values 0..16 and a label 0..9.
  /// Errors: UserError names the file and the line where a value is missing, no number or out of range, or if there are
  /// fewer than 2 images.
  explicit DigitsData(const std::filesystem::path& path);

  int64_t size(Part part) const { return part == Part::kTrain ? train_size_ : labels_.size(0) - train_size_; }

  /// The images of one step: an epoch goes through a shuffle of the training part. Shapes: f32[count, 64] in 0..1,
  /// i64[count]. Errors: UserError if `count` is more than the part holds.
  Batch batch(Part part, uint64_t seed, int64_t step, int64_t count) const;
  /// A whole part, in file order.
  Batch all(Part part) const;

 private:
  at::Tensor images_;  // f32[n, 64]
  at::Tensor labels_;  // i64[n]
  int64_t train_size_ = 0;
};

/// How many of the validation images a classifier reads right. Shapes: `logits` maps f32[n, 64] to f32[n, 10].
Finding digits_accuracy(const DigitsData& digits, const std::function<at::Tensor(const at::Tensor&)>& logits);

}  // namespace examples
