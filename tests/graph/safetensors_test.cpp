// Files of tensors: what was written is read, and what is no such file is refused.
#include "diptych/graph/safetensors.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/types.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "testing/expect_error.h"

namespace diptych {
namespace {

using testing::expect_contains;
using testing::expect_error;
using testing::message_of;

class Safetensors : public ::testing::Test {
 protected:
  void SetUp() override {
    path = (std::filesystem::temp_directory_path() / ("diptych_tensors_" + std::to_string(::getpid()))).string();
  }
  void TearDown() override { std::filesystem::remove(path); }
  std::string bytes() const {
    std::ifstream stream(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
  }
  void write(const std::string& content) const { std::ofstream(path, std::ios::binary | std::ios::trunc) << content; }

  /// A header and sixteen bytes of data.
  void write_as_others(const std::string& header) const {
    const uint64_t length = header.size();
    write(std::string(reinterpret_cast<const char*>(&length), sizeof(length)) + header + std::string(16, '\1'));
  }

  std::string path;
};

TEST_F(Safetensors, ReadsWhatWasWritten) {
  std::map<std::string, at::Tensor> tensors{{"empty", torch::empty({0, 3})}, {"scalar", torch::tensor(2.5)}};
  for (const auto dtype : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kLong, at::kInt, at::kShort,
                           at::kChar, at::kByte, at::kBool, at::kComplexFloat}) {
    tensors.emplace(c10::toString(dtype), torch::randn({3, 4}).mul(3).to(dtype).t());
  }
  tensors.emplace("part", torch::arange(24.0).view({4, 6}).slice(1, 0, 6, 2).requires_grad_());
  save_tensors(tensors, path);
  const auto read = load_tensors(path);
  ASSERT_EQ(read.size(), tensors.size());
  for (const auto& [name, tensor] : tensors) {
    EXPECT_EQ(read.at(name).scalar_type(), tensor.scalar_type()) << name;
    EXPECT_TRUE(read.at(name).equal(tensor.detach())) << name;
    EXPECT_TRUE(read.at(name).is_contiguous()) << name;
  }
}

// The bits say that the elements in memory are others.
TEST_F(Safetensors, ReadsWhatWasALazyConjugateOrNegative) {
  const at::Tensor conjugate = torch::randn({3}, at::kComplexFloat).conj(), negative = torch::imag(conjugate);
  ASSERT_TRUE(conjugate.is_conj() && negative.is_neg());
  save_tensors({{"conjugate", conjugate}, {"negative", negative}}, path);
  const auto read = load_tensors(path);
  EXPECT_TRUE(read.at("conjugate").equal(conjugate));
  EXPECT_TRUE(read.at("negative").equal(negative));
}

// The bytes as the format's own words describe them.
TEST_F(Safetensors, WritesTheFormat) {
  save_tensors({{"w", torch::tensor({1, 2}, at::kInt)}}, path);
  const std::string content = bytes();
  uint64_t length = 0;
  std::memcpy(&length, content.data(), 8);
  EXPECT_EQ(length % 8, 0U);
  std::string header = content.substr(8, length);
  const std::string before = R"({"__metadata__":{"diptych.checksum":")";
  ASSERT_EQ(header.substr(0, before.size()), before);
  header.erase(before.size(), 16);
  EXPECT_EQ(header.substr(0, header.find_last_not_of(' ') + 1),
            before + R"("},"w":{"data_offsets":[0,8],"dtype":"I32","shape":[2]}})");
  EXPECT_EQ(content.substr(8 + length), std::string("\1\0\0\0\2\0\0\0", 8));
}

TEST_F(Safetensors, RefusesWhatIsNoSuchFile) {
  save_tensors({{"w", torch::ones({4})}}, path);
  const std::string good = bytes();
  for (size_t kept = 0; kept < good.size(); ++kept) {
    write(good.substr(0, kept));
    EXPECT_NE(message_of([&] { load_tensors(path); }), "nothing was thrown") << kept;
  }
  write("no tensors at all, and long enough to have a length");
  expect_error([&] { load_tensors(path); }, "is not a safetensors file, or was cut short");
}

// What another program wrote has no checksum; what is wrong with it is found where it is read.
TEST_F(Safetensors, RefusesWhatOthersWroteWrongly) {
  const auto refusal = [&](const std::string& dtype, const std::string& shape, const std::string& offsets) {
    write_as_others(fmt::format(R"({{"w":{{"dtype":"{}","shape":{},"data_offsets":{}}}}})", dtype, shape, offsets));
    return message_of([&] { load_tensors(path); });
  };
  EXPECT_EQ(refusal("F32", "[4]", "[0,16]"), "nothing was thrown");
  for (const char* const number : {"1e300", "4.0", "-1e300", "99999999999999999999"}) {
    expect_contains(refusal("F32", fmt::format("[{}]", number), "[0,16]"), "expected 64-bit integers;");
  }
  expect_contains(refusal("F99", "[4]", "[0,16]"), "holds 'w' with the unknown dtype F99");
  expect_contains(refusal("F32", "[5]", "[0,16]"), "holds 16 bytes for 'w', expected 20");
  expect_contains(refusal("F32", "{}", "[0,16]"), "describes 'w' in a way that safetensors do");
  expect_contains(refusal("F32", "[4]", "[0,99]"), "was cut short, or is damaged, at 'w'");
}

TEST_F(Safetensors, NoticesEveryByteOfATensorThatIsDamaged) {
  const std::map<std::string, at::Tensor> tensors{{"bias", torch::ones({3})}, {"weight", torch::randn({4})}};
  save_tensors(tensors, path);
  const std::string good = bytes();
  size_t unnoticed = 0;
  for (size_t i = 0; i < good.size(); ++i) {
    std::string damaged = good;
    damaged[i] ^= 1;
    write(damaged);
    try {
      const auto read = load_tensors(path);
      // A checksum whose name is damaged is none; the tensors are whole then.
      for (const auto& [name, tensor] : tensors) EXPECT_TRUE(read.at(name).equal(tensor)) << i;
      ++unnoticed;
    } catch (const UserError&) {
    }
  }
  EXPECT_LE(unnoticed, std::string("diptych.checksum").size());
}

TEST_F(Safetensors, RefusesWhatTheFormatCanNotHold) {
  EXPECT_EQ(message_of([&] {
              save_tensors({{"w", at::Tensor()}}, path);
            }),
            "[save_tensors] 'w' is undefined or not strided, expected a strided tensor of a dtype that safetensors "
            "support; convert it");
  expect_error([&] { save_tensors({{"w", torch::ones({2}, at::kComplexDouble)}}, path); }, "'w' is c128");
  EXPECT_EQ(message_of([&] {
              save_tensors({{"__metadata__", torch::ones({2})}}, path);
            }),
            "[save_tensors] a tensor is called '__metadata__', a reserved name in safetensors files; rename it");
  EXPECT_FALSE(std::filesystem::exists(path));
}

}  // namespace
}  // namespace diptych
