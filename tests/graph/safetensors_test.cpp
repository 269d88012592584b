// Files of tensors: what was written is read, and what is no such file is refused.
#include "diptych/graph/safetensors.h"

#include <gtest/gtest.h>
#include <torch/torch.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "testing/message_of.h"

namespace diptych {
namespace {

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

// The bytes as the format's own words describe them.
TEST_F(Safetensors, WritesTheFormat) {
  save_tensors({{"w", torch::tensor({1, 2}, at::kInt)}}, path);
  const std::string content = bytes();
  uint64_t length = 0;
  std::memcpy(&length, content.data(), 8);
  EXPECT_EQ(length % 8, 0U);
  const std::string header = content.substr(8, length);
  EXPECT_EQ(header.substr(0, header.find_last_not_of(' ') + 1),
            R"({"w":{"data_offsets":[0,8],"dtype":"I32","shape":[2]}})");
  EXPECT_EQ(content.substr(8 + length), std::string("\1\0\0\0\2\0\0\0", 8));
}

TEST_F(Safetensors, RefusesWhatIsNoSuchFile) {
  save_tensors({{"w", torch::ones({4})}}, path);
  const std::string good = bytes();
  for (size_t kept = 0; kept < good.size(); ++kept) {
    write(good.substr(0, kept));
    EXPECT_NE(message_of([&] { load_tensors(path); }), "nothing was thrown") << kept;
  }
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string content = good;
    content.replace(content.find(from), from.size(), to);
    write(content);
    return message_of([&] { load_tensors(path); });
  };
  EXPECT_NE(changed("F32", "F99").find("holds 'w' with the unknown dtype F99"), std::string::npos);
  EXPECT_NE(changed("[4]", "[5]").find("holds 16 bytes for 'w', expected 20"), std::string::npos);
  EXPECT_NE(changed("[4]", "{ }").find("describes 'w' otherwise than safetensors do"), std::string::npos);
  EXPECT_NE(changed("[0,16]", "[0,99]").find("was cut short, or is damaged, at 'w'"), std::string::npos);
  write("no tensors at all, and long enough to have a length");
  EXPECT_NE(message_of([&] { load_tensors(path); }).find("is no safetensors file, or was cut short"),
            std::string::npos);
}

TEST_F(Safetensors, RefusesWhatTheFormatCanNotHold) {
  EXPECT_EQ(message_of([&] {
              save_tensors({{"w", at::Tensor()}}, path);
            }),
            "[save_tensors] 'w' is undefined or not strided, expected a strided tensor of a dtype that safetensors "
            "have; convert it");
  EXPECT_NE(message_of([&] {
              save_tensors({{"w", torch::ones({2}, at::kComplexDouble)}}, path);
            }).find("'w' is c128"),
            std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(path));
}

}  // namespace
}  // namespace diptych
