// The data sets: what they read, what they draw, and what they say about files that are no data.
#include "common/digits_data.h"
#include "common/program.h"
#include "common/text_data.h"
#include "examples/temporary_folder.h"
#include "testing/expect_error.h"

namespace examples {
namespace {

using diptych::testing::expect_contains;
using diptych::testing::expect_error;
using diptych::testing::message_of;

std::string digits_line(const std::string& grey, const std::string& label) {
  std::string line;
  for (int i = 0; i < 64; ++i) line += grey + ",";
  return line + label + "\n";
}

TEST(TextData, GivesEachByteThatOccursAToken) {
  TemporaryFolder folder;
  const TextData text(folder.file("t", "abcabcabcabc"), 3);
  EXPECT_EQ(text.vocabulary(), 3);
  EXPECT_EQ(text.size(), 12);
  EXPECT_TRUE(at::equal(text.encode("cab"), torch::tensor({2, 0, 1}, at::kLong)));
  EXPECT_EQ(text.decode(text.encode("bca")), "bca");
  expect_error([&] { text.encode("abx"); }, "the character 'x' (byte 120) does not occur");
}

TEST(TextData, ReadsTheShippedText) {
  const TextData text(data_path("kjv_new_testament.txt"), 128);
  EXPECT_EQ(text.size(), 952514);
  EXPECT_EQ(text.vocabulary(), 73);
}

TEST(TextData, TargetsAreInputsOneCharacterOn) {
  TemporaryFolder folder;
  std::string content;
  for (int i = 0; i < 250; ++i) content.push_back(static_cast<char>(i));
  const TextData text(folder.file("t", content), 8);
  for (const Part part : {Part::kTrain, Part::kValidation}) {
    const Batch batch = text.batch(part, 1, 0, 16);
    EXPECT_EQ(batch.inputs.sizes(), (std::vector<int64_t>{16, 8}));
    EXPECT_TRUE(at::equal(batch.inputs + 1, batch.targets))
        << "the text counts upwards, so each target is its input plus one";
  }
}

TEST(TextData, BatchesDependOnSeedAndStepAlone) {
  const TextData text(data_path("kjv_new_testament.txt"), 32);
  const Batch first = text.batch(Part::kTrain, 7, 40, 4);
  torch::manual_seed(3);
  at::randn({5});
  EXPECT_TRUE(at::equal(first.inputs, text.batch(Part::kTrain, 7, 40, 4).inputs));
  EXPECT_FALSE(at::equal(first.inputs, text.batch(Part::kTrain, 7, 41, 4).inputs));
  EXPECT_FALSE(at::equal(first.inputs, text.batch(Part::kTrain, 8, 40, 4).inputs));
}

TEST(TextData, NeverTrainsOnTheValidationPart) {
  TemporaryFolder folder;
  const TextData text(folder.file("t", std::string(90, 'a') + std::string(10, 'b')), 4);
  for (int64_t step = 0; step < 50; ++step) {
    const Batch batch = text.batch(Part::kTrain, 1, step, 8);
    EXPECT_EQ(batch.targets.max().item<int64_t>(), 0);
    EXPECT_EQ(text.batch(Part::kValidation, 1, step, 8).inputs.min().item<int64_t>(), 1);
  }
}

TEST(TextData, DrawsFromTheSmallestTextThatItTakes) {
  TemporaryFolder folder;
  const TextData text(folder.file("t", "0123456789"), 4);
  EXPECT_EQ(text.decode(text.batch(Part::kTrain, 1, 0, 1).inputs), "0123");
  EXPECT_EQ(text.decode(text.batch(Part::kValidation, 1, 0, 1).targets), "6789");
}

TEST(TextData, SaysWhatIsWrongWithAFile) {
  TemporaryFolder folder;
  EXPECT_EQ(message_of([&] { TextData("/no/such/file", 8); }),
            "[text data] no file at '/no/such/file'; give the path of a file with --data");
  expect_error([&] { TextData(folder.path(), 8); }, "is no regular file");
  const auto empty = folder.file("empty", "");
  EXPECT_EQ(message_of([&] { TextData(empty, 8); }),
            "[text data] '" + empty.string() + "' is empty; give a file that holds data with --data");
  const auto tiny = folder.file("tiny", "0123456789");
  EXPECT_EQ(
      message_of([&] { TextData(tiny, 5); }),
      "[text data] '" + tiny.string() +
          "' holds 10 bytes, which is too short: blocks of 5 need at least 12 (one window to train on, one to validate "
          "on); give a longer text or a smaller --block");
}

TEST(DigitsData, ReadsTheShippedDigits) {
  const DigitsData digits(data_path("digits.csv"));
  EXPECT_EQ(digits.size(Part::kTrain) + digits.size(Part::kValidation), 1797);
  const Batch train = digits.all(Part::kTrain);
  EXPECT_EQ(train.inputs.size(1), 64);
  EXPECT_EQ(train.targets[0].item<int64_t>(), 0);
  EXPECT_EQ(train.inputs[0][2].item<float>(), 5.0f / 16);
  EXPECT_EQ(train.inputs.max().item<float>(), 1.0f);
  EXPECT_EQ(at::bincount(train.targets).numel(), 10);
}

TEST(DigitsData, AnEpochShowsEachImageOnce) {
  TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 12; ++i) text += digits_line(std::to_string(i), "1");
  const DigitsData digits(folder.file("d", text));
  ASSERT_EQ(digits.size(Part::kTrain), 10);
  const auto epoch = [&](int64_t first_step) {
    std::vector<at::Tensor> seen;
    for (int64_t step = first_step; step < first_step + 5; ++step) {
      seen.push_back(digits.batch(Part::kTrain, 1, step, 2).inputs.select(1, 0));
    }
    return at::cat(seen) * 16;
  };
  EXPECT_TRUE(at::equal(std::get<0>(epoch(0).sort()), at::arange(10, at::kFloat)));
  EXPECT_TRUE(at::equal(std::get<0>(epoch(5).sort()), at::arange(10, at::kFloat)));
  EXPECT_FALSE(at::equal(epoch(0), epoch(5))) << "each epoch has its own order";
}

TEST(DigitsData, SaysWhatIsWrongWithAFile) {
  TemporaryFolder folder;
  const std::string good = digits_line("3", "4");
  const auto error = [&](const std::string& text) { return message_of([&] { DigitsData(folder.file("d", text)); }); };
  EXPECT_EQ(message_of([] { DigitsData("/no/such/file"); }),
            "[digits] no file at '/no/such/file'; give the path of a file with --data");
  expect_contains(error(""), "is empty");
  expect_contains(error(good), "holds 1 image; at least 2 are needed");
  expect_contains(error(good + good.substr(0, 40)), "line 2, value 21: expected 65 comma-separated whole numbers");
  expect_contains(error(good + digits_line("17", "4")), "line 2, value 1: 17 is outside 0..16");
  expect_contains(error(good + digits_line("1", "10")), "line 2, value 65: 10 is outside 0..9");
  expect_contains(error(good + digits_line("1", "4,4")), "line 2, value 65: expected 65");
  expect_contains(error("In the beginning\n"), "line 1, value 1: expected 65");
}

TEST(DigitsData, RefusesABatchThatIsLargerThanTheData) {
  const DigitsData digits(data_path("digits.csv"));
  expect_error([&] { digits.batch(Part::kTrain, 1, 0, 5000); },
               "a batch of 5000 was asked for, but there are 1498 images");
}

}  // namespace
}  // namespace examples
