// What Diptych says of graphs in files and in text that it can't read, and of switches that it does not have.
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "testing/refusal.h"

namespace diptych::testing {
namespace {

namespace fs = std::filesystem;

class Files : public ::testing::Test {
 protected:
  void SetUp() override {
    folder = fs::temp_directory_path() / ("diptych_errors_" + std::to_string(::getpid()));
    fs::create_directories(folder);
    path = (folder / "pair.graphs").string();
    const Pair pair = capture([](const at::Tensor& x) { return x.tanh(); }, ones_leaf({2}));
    save(GraphFile{{{"forward", pair.forward}, {"backward", pair.backward}}, {}}, path);
    std::ifstream stream(path, std::ios::binary);
    bytes.assign(std::istreambuf_iterator<char>(stream), {});
  }
  void TearDown() override { fs::remove_all(folder); }

  void expect_refused(const std::string& content, const std::vector<std::string>& parts) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << content;
    expect_refusal([&] { (void)load(path); }, parts);
  }

  fs::path folder;
  std::string path;
  std::string bytes;
};

TEST_F(Files, RefusesAMissingFileAndAFolder) {
  expect_refusal([&] { (void)load(path + "x"); },
                 {"[load] '" + path + "x': No such file or directory; check the path"});
  expect_refusal([&] { (void)load(folder.string()); }, {"[load]", "Is a directory"});
  expect_refusal([&] { save(load(path), (folder / "none" / "pair").string()); },
                 {"[save]", "No such file or directory"});
}

TEST_F(Files, RefusesAForeignFile) {
  expect_refused("PK\x03\x04 something else\n", {"[load] '" + path, "pass a file that save() wrote"});
  expect_refused("", {"[load]", "pass a file that save() wrote"});
}

TEST_F(Files, RefusesANewerVersion) {
  std::string newer = bytes;
  const size_t digit = newer.find(' ') + 1;
  newer.replace(digit, 1, "5");
  expect_refused(newer,
                 {"has format version 5, but this Diptych reads 1 to 4; load it with the newer Diptych that saved it"});
}

TEST_F(Files, RefusesACutOrDamagedFile) {
  expect_refused(bytes.substr(0, bytes.size() / 2), {"the file was cut short or has grown, save it again"});
  std::string damaged = bytes;
  damaged[bytes.size() / 2] ^= 1;
  expect_refused(damaged, {"is damaged (its checksum does not match); save it again"});
}

TEST_F(Files, NamesTheGraphsThatThereAre) {
  expect_refusal([&] { (void)load(path).graph("joint"); }, {"joint", "forward", "backward"});
}

TEST(Text, NamesLineAndColumn) {
  expect_refusal([] { (void)parse("graph f(%0 x : f32[2])\n  %1 : f32[2] = aten.tahn(%0)\n  return (%1)\n"); },
                 {"line 2", "aten.tahn"});
  expect_refusal([] { (void)parse("graph f(%0 x : f32[2])\n  return (%7)\n"); }, {"line 2", "%7"});
}

TEST(Switches, RefusesAnUnknownOne) {
  expect_refusal([] { set_log("graphs,cahce"); },
                 {"[DIPTYCH_LOG] got 'cahce', which is not a switch; use 'all' or some of: graphs (", "cache (",
                  "partition (", "backward ("});
  EXPECT_FALSE(log_enabled(Log::kGraphs)) << "a refused list turned a switch on";
}

}  // namespace
}  // namespace diptych::testing
