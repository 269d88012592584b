// Reading a text and drawing windows from it.
#include "common/text_data.h"

#include <diptych/base/error.h>
#include <torch/types.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "common/batch_random.h"
#include "diptych/base/check.h"

namespace examples {

std::string read_file(const std::filesystem::path& path, const std::string& who) {
  std::error_code error;
  DIPTYCH_CHECK(std::filesystem::exists(path, error), "[{}] no file at '{}'; give the path of a file with --data", who,
                path.string());
  DIPTYCH_CHECK(std::filesystem::is_regular_file(path, error),
                "[{}] '{}' is no regular file; give the path of a file with --data", who, path.string());
  std::ifstream file(path, std::ios::binary);
  DIPTYCH_CHECK(file, "[{}] '{}' can't be opened for reading; check its permissions", who, path.string());
  std::ostringstream bytes;
  bytes << file.rdbuf();
  DIPTYCH_CHECK(!file.bad(), "[{}] reading '{}' failed half-way", who, path.string());
  std::string text = std::move(bytes).str();
  DIPTYCH_CHECK(!text.empty(), "[{}] '{}' is empty; give a file that holds data with --data", who, path.string());
  return text;
}

TextData::TextData(const std::filesystem::path& path, int64_t block) : block_(block) {
  const std::string text = read_file(path, "text data");
  const auto size = static_cast<int64_t>(text.size());
  DIPTYCH_CHECK(
      size >= 2 * (block + 1),
      "[text data] '{}' holds {} bytes, which is too short: blocks of {} need at least {} (one window to train on, one "
      "to validate on); give a longer text or a smaller --block",
      path.string(), size, block, 2 * (block + 1));
  token_of_.fill(-1);
  for (const unsigned char byte : text) token_of_[byte] = 0;
  for (int byte = 0; byte < 256; ++byte) {
    if (token_of_[byte] < 0) continue;
    token_of_[byte] = static_cast<int16_t>(characters_.size());
    characters_.push_back(static_cast<char>(byte));
  }
  tokens_ = encode(text);
  train_size_ = size - std::max(size / 10, block + 1);
}

Batch TextData::batch(Part part, uint64_t seed, int64_t step, int64_t count) const {
  const int64_t begin = part == Part::kTrain ? 0 : train_size_;
  const int64_t end = part == Part::kTrain ? train_size_ : size();
  auto random = batch_random(seed, step, part);
  std::vector<at::Tensor> windows;
  for (int64_t i = 0; i < count; ++i) {
    const auto start = begin + static_cast<int64_t>(random() % static_cast<uint64_t>(end - begin - block_));
    windows.push_back(tokens_.slice(0, start, start + block_ + 1));
  }
  const at::Tensor all = at::stack(windows);
  return {all.slice(1, 0, block_).contiguous(), all.slice(1, 1, block_ + 1).contiguous()};
}

at::Tensor TextData::encode(const std::string& text) const {
  at::Tensor tokens = at::empty({static_cast<int64_t>(text.size())}, at::kLong);
  auto* out = tokens.mutable_data_ptr<int64_t>();
  for (const unsigned char byte : text) {
    DIPTYCH_CHECK(token_of_[byte] >= 0, "[text data] the character '{}' (byte {}) does not occur in the training text",
                  static_cast<char>(byte), static_cast<int>(byte));
    *out++ = token_of_[byte];
  }
  return tokens;
}

std::string TextData::decode(const at::Tensor& tokens) const {
  const at::Tensor flat = tokens.contiguous().view(-1);
  std::string text;
  for (int64_t i = 0; i < flat.numel(); ++i) text.push_back(characters_.at(flat.const_data_ptr<int64_t>()[i]));
  return text;
}

}  // namespace examples
