// Reading and shuffling the digits.
#include "common/digits_data.h"

#include <diptych/base/error.h>
#include <torch/types.h>

#include <algorithm>
#include <charconv>
#include <numeric>
#include <string_view>

#include "common/batch_random.h"
#include "diptych/base/check.h"

namespace examples {
namespace {

constexpr int64_t kPixels = 64;
constexpr int kMaxGrey = 16;

// Appends the 65 numbers of one line.
void parse_line(std::string_view line, const std::string& where, std::vector<float>& pixels,
                std::vector<int64_t>& labels) {
  const char* at = line.data();
  const char* const end = at + line.size();
  for (int64_t column = 0; column <= kPixels; ++column) {
    int value = 0;
    const auto [next, error] = std::from_chars(at, end, value);
    const bool is_last = column == kPixels;
    DIPTYCH_CHECK(error == std::errc() && (is_last ? next == end : next != end && *next == ','),
                  "[digits] {}, value {}: expected {} comma-separated whole numbers (64 grey values, then the digit); "
                  "the file may be "
                  "cut off or no digits file",
                  where, column + 1, kPixels + 1);
    DIPTYCH_CHECK(value >= 0 && value <= (is_last ? 9 : kMaxGrey), "[digits] {}, value {}: {} is outside 0..{}", where,
                  column + 1, value, is_last ? 9 : kMaxGrey);
    if (is_last) {
      labels.push_back(value);
    } else {
      pixels.push_back(static_cast<float>(value) / kMaxGrey);
      at = next + 1;
    }
  }
}

}  // namespace

DigitsData::DigitsData(const std::filesystem::path& path) {
  const std::string text = read_file(path, "digits");
  std::vector<float> pixels;
  std::vector<int64_t> labels;
  size_t line_number = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    parse_line(std::string_view(text).substr(begin, end - begin),
               fmt::format("'{}' line {}", path.string(), ++line_number), pixels, labels);
    begin = end + 1;
  }
  const auto count = static_cast<int64_t>(labels.size());
  DIPTYCH_CHECK(count >= 2,
                "[digits] '{}' holds {} image; at least 2 are needed, one to train on and one to validate on",
                path.string(), count);
  images_ = torch::tensor(pixels).view({count, kPixels});
  labels_ = torch::tensor(labels);
  train_size_ = count - std::max<int64_t>(count / 6, 1);
}

Batch DigitsData::batch(Part part, uint64_t seed, int64_t step, int64_t count) const {
  const int64_t available = size(part);
  DIPTYCH_CHECK(count <= available,
                "[digits] a batch of {} was asked for, but there are {} images; use --batch {} or less", count,
                available, available);
  const int64_t per_epoch = available / count;
  auto random = batch_random(seed, step / per_epoch, part);
  std::vector<int64_t> order(available);
  std::iota(order.begin(), order.end(), part == Part::kTrain ? 0 : train_size_);
  std::shuffle(order.begin(), order.end(), random);
  const auto first = order.begin() + step % per_epoch * count;
  const at::Tensor chosen = torch::tensor(std::vector<int64_t>(first, first + count));
  return {images_.index_select(0, chosen), labels_.index_select(0, chosen)};
}

Batch DigitsData::all(Part part) const {
  const int64_t begin = part == Part::kTrain ? 0 : train_size_;
  const int64_t end = begin + size(part);
  return {images_.slice(0, begin, end), labels_.slice(0, begin, end)};
}

Finding digits_accuracy(const DigitsData& digits, const std::function<at::Tensor(const at::Tensor&)>& logits) {
  torch::NoGradGuard no_grad;
  const Batch unseen = digits.all(Part::kValidation);
  const auto right = (logits(unseen.inputs).argmax(1) == unseen.targets).sum().item<int64_t>();
  const int64_t count = unseen.targets.size(0);
  return {"validation accuracy",
          fmt::format("{:.2f} % ({} of {} images)", 100.0 * static_cast<double>(right) / static_cast<double>(count),
                      right, count)};
}

}  // namespace examples
