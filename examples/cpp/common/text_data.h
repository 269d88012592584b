// A text file as a sequence of tokens: one token for each different byte that occurs in it.
#pragma once
#include <array>
#include <string>
#include <vector>

#include "common/batch.h"

namespace examples {

/// The tokens of one text. The last tenth is kept for validation.
class TextData {
 public:
  /// Reads the text. Errors: UserError if the file can't be read, is empty, or is too short for two blocks of `block`
  /// tokens.
  TextData(const std::filesystem::path& path, int64_t block);

  int64_t vocabulary() const { return static_cast<int64_t>(characters_.size()); }
  int64_t size() const { return tokens_.numel(); }

  /// Draws `count` windows. Shapes: inputs and targets are i64[count, block], targets one token ahead.
  Batch batch(Part part, uint64_t seed, int64_t step, int64_t count) const;

  /// Tokens of a text, i64[n]. Errors: UserError if it holds a character that the data doesn't.
  at::Tensor encode(const std::string& text) const;
  std::string decode(const at::Tensor& tokens) const;

 private:
  int64_t block_;
  int64_t train_size_ = 0;
  std::string characters_;             // by token
  std::array<int16_t, 256> token_of_;  // by byte; -1 where it doesn't occur
  at::Tensor tokens_;                  // i64[size]
};

}  // namespace examples
