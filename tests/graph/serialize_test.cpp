// Graphs survive files and JSON unchanged; damaged, foreign and newer files are refused by name.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "diptych/base/error.h"
#include "diptych/graph/checksum.h"
#include "diptych/graph/identical.h"
#include "diptych/graph/serialize.h"
#include "graph/random_graph.h"
#include "testing/expect_error.h"

namespace diptych {

using namespace detail;
namespace {

using testing::expect_contains;
using testing::expect_error;
using testing::message_of;
using testing::RandomGraph;
using testing::test_hop;

class Serialize : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / fmt::format("diptych-serialize-{}-{}", ::getpid(), counter_++);
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name = "pair.graphs") const { return (folder_ / name).string(); }
  static std::string read(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  static void write(const std::string& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
  }
  std::string load_error(const std::string& bytes) {
    write(path("bad"), bytes);
    return message_of([&] { load(path("bad"), test_hop); });
  }

  std::filesystem::path folder_;
  static inline int counter_ = 0;
};

// A slot, scope or string that is not UTF-8 can't be JSON; everything else can.
bool is_utf8(const std::string& code) { return code.find("\\x") == std::string::npos; }

Graph small(float value = 1) {
  return parse(
      "graph forward(%0 x : f32[2,3] grad)\n  %1 : f32[3] = constant 0\n  %2 : f32[2,3] grad = aten.mul.Tensor(%0, "
      "%1)\n"
      "  %3 : f32[2,3] = aten.add.Tensor(%2, %2, alpha=0.5)  # block0\n  return (%3 y, %2 saved residual)\n",
      {at::full({3}, value)});
}

TEST_F(Serialize, RandomGraphsRoundTripThroughJson) {
  size_t done = 0;
  for (uint64_t seed = 1000; seed < 1200; ++seed) {
    const Graph graph = RandomGraph(seed).make(8);
    if (!is_utf8(graph.code())) continue;
    ASSERT_TRUE(identical(graph, from_json(to_json(graph), all_constants(graph), test_hop))) << graph.code();
    ++done;
  }
  EXPECT_GT(done, 20u);
}

TEST_F(Serialize, RandomGraphsRoundTripThroughAFileWithTheirConstants) {
  GraphFile file;
  for (uint64_t seed = 0; seed < 120; ++seed) {
    Graph graph = RandomGraph(seed).make(8);
    if (is_utf8(graph.code())) file.graphs.emplace_back(fmt::format("graph {}", seed), std::move(graph));
  }
  file.metadata = {{"signature", "f(x) -> y\n"}, {"", ""}};
  save(file, path());
  const GraphFile back = load(path(), test_hop);
  EXPECT_EQ(back.metadata, file.metadata);
  ASSERT_EQ(back.graphs.size(), file.graphs.size());
  ASSERT_GT(back.graphs.size(), 10u);
  for (size_t i = 0; i < back.graphs.size(); ++i) {
    EXPECT_EQ(back.graphs[i].first, file.graphs[i].first);
    ASSERT_TRUE(identical(back.graphs[i].second, file.graphs[i].second)) << file.graphs[i].second.code();
  }
}

TEST_F(Serialize, ConstantsKeepStridesDeviceAndSharing) {
  const at::Tensor matrix = at::arange(6, at::kFloat).view({2, 3}).t();
  const at::Tensor row = at::arange(3, at::kFloat).expand({2, 3}), leaf = at::ones({2}).set_requires_grad(true);
  Graph graph("f");
  for (const auto& constant : {matrix, row, matrix, leaf, at::empty({0, 3}), at::full({}, 2.5)})
    graph.add_constant(constant);
  graph.set_outputs({}, {});
  save(graph, path());
  const Graph back = load(path()).graph("f");
  EXPECT_TRUE(identical(graph, back));
  const auto& constants = back.constants();
  EXPECT_EQ(constants[0].strides(), matrix.strides());
  EXPECT_TRUE(at::equal(constants[0], matrix) && at::equal(constants[1], row));
  EXPECT_TRUE(constants[0].is_same(constants[2]));
  EXPECT_TRUE(constants[3].requires_grad());
}

TEST_F(Serialize, EveryDamagedByteIsNoticed) {
  save(GraphFile{{{"forward", small()}, {"backward", small(2)}}, {{"note", "kept"}}}, path());
  const auto good = read(path());
  std::mt19937_64 random(5);
  const auto below = [&](size_t bound) { return std::uniform_int_distribution<size_t>(0, bound - 1)(random); };
  for (size_t at = 0; at < good.size(); ++at) {
    auto bad = good;
    bad[at] = static_cast<char>(bad[at] ^ (1 << below(8)));
    ASSERT_NE(load_error(bad), "nothing was thrown") << "byte " << at;
  }
  for (int i = 0; i < 300; ++i) {
    auto bad = good;
    const size_t at = below(bad.size());
    switch (below(3)) {
      case 0:
        bad.resize(at);
        break;
      case 1:
        bad.erase(at, 1 + below(40));
        break;
      default:
        bad.insert(at, bad.substr(below(bad.size()), 1 + below(40)));
        break;
    }
    ASSERT_NE(load_error(bad), "nothing was thrown") << i;
  }
  EXPECT_EQ(load_error(good), "nothing was thrown");
}

// Even with a checksum that fits (a file made by hand), a wrong structure is a UserError and never a crash.
TEST_F(Serialize, MutatedContentUnderARightChecksumIsRefusedOrLoads) {
  save(small(), path());
  const auto good = read(path());
  const auto body = good.substr(good.find('\n') + 1);
  const size_t text_size = body.rfind('}') + 1;
  const std::vector<std::string> replacements{"null",        "-1",     "\"\"", "[]",      "{}",
                                              "99999999999", "\"%7\"", "true", "\"f64\"", "1e300"};
  size_t refused = 0;
  const auto json = nlohmann::json::parse(body.substr(0, text_size));
  const auto leaves = json.flatten();
  for (const auto& [key, value] : leaves.items()) {
    for (const auto& replacement : replacements) {
      auto changed = json;
      changed[nlohmann::json::json_pointer(key)] = nlohmann::json::parse(replacement);
      const auto text = changed.dump();
      const auto constants = body.substr(text_size);
      const auto sizes = fmt::format("1 {} {}", text.size(), constants.size());
      const auto sum = checksum(constants, checksum(text, checksum(sizes)));
      if (load_error(fmt::format("diptych-graphs {} {:016x}\n{}{}", sizes, sum, text, constants)) !=
          "nothing was thrown")
        ++refused;
    }
  }
  EXPECT_GT(refused, leaves.size() * 5);
}

TEST_F(Serialize, MutatedJsonIsRefusedOrIdentical) {
  const Graph graph = small();
  const auto constants = all_constants(graph);
  const auto good = to_json(graph);
  for (size_t at = 0; at < good.size(); ++at) {
    for (const char c : {'0', 'x', '"', ' ', '\x80'}) {
      auto bad = good;
      bad[at] = c;
      try {
        ASSERT_TRUE(identical(from_json(bad, constants), graph)) << bad;
      } catch (const UserError&) {
      }
    }
  }
}

TEST_F(Serialize, ErrorsNameWhatIsWrong) {
  save(small(), path());
  const auto good = read(path());
  const auto rest = good.substr(good.find(' ') + 2);
  const auto expect = [&](const std::string& bytes, std::string_view message) {
    expect_contains(load_error(bytes), std::string(message));
  };
  expect("", "is not a graph file (it does not start with 'diptych-graphs')");
  expect("PK\x03\x04 something else", "is not a graph file");
  expect("diptych-graphs 5" + rest,
         "has format version 5, but this Diptych reads 1 to 4; load it with the newer Diptych");
  expect("diptych-graphs 0" + rest, "has format version 0, but this Diptych reads 1 to 4; capture again");
  expect(good.substr(0, 20), "was cut short in its first line");
  expect(good.substr(0, good.size() - 1), "the file was cut short or has grown");
  expect(good + "x", "the file was cut short or has grown");
  auto damaged = good;
  damaged[good.size() - 2] ^= 1;
  expect(damaged, "is damaged (its checksum does not match)");
}

// What version 2 added, version 1 has none of, and lacks the keys.
TEST_F(Serialize, ReadsVersionOne) {
  const Graph graph = small();
  save(graph, path());
  const auto bytes = read(path());
  const auto line_end = bytes.find('\n');
  const auto sizes = "1" + bytes.substr(16, bytes.rfind(' ', line_end) - 16);
  ASSERT_EQ(bytes.substr(0, 16), "diptych-graphs 4");
  const auto body = bytes.substr(line_end + 1);
  const auto text = body.substr(0, std::stoul(sizes.substr(2)));
  const auto sum = checksum(body.substr(text.size()), checksum(text, checksum(sizes)));
  write(path(), fmt::format("diptych-graphs {} {:016x}\n", sizes, sum) + body);
  EXPECT_TRUE(identical(load(path()).graphs[0].second, graph));
  auto document = nlohmann::json::parse(to_json(graph));
  document["version"] = 1;
  EXPECT_TRUE(identical(from_json(document.dump(), all_constants(graph)), graph));
}

std::string json_error(const nlohmann::json& document, const std::vector<at::Tensor>& constants) {
  return message_of([&] { from_json(document.dump(), constants); });
}

TEST_F(Serialize, OperatorsThatAreMissingOrHaveChangedAreRefused) {
  const Graph graph = small();
  const auto signed_with = [&](std::string_view from, std::string_view to) {
    auto text = to_json(graph);
    for (size_t at = 0; (at = text.find(from, at)) != text.npos; at += to.size()) text.replace(at, from.size(), to);
    auto document = nlohmann::json::parse(text);
    document["checksum"] = fmt::format("{:016x}", checksum(document["content"].dump()));
    return json_error(document, all_constants(graph));
  };
  expect_contains(signed_with("aten.mul.Tensor", "aten.mull.Tensor"),
                  "this LibTorch has no operator 'aten.mull.Tensor'");
  expect_contains(signed_with("Scalar alpha=1", "Scalar alpha=2"),
                  "aten.add.Tensor was saved as 'aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=2) -> "
                  "Tensor', but is");
  expect_contains(signed_with("\"version\":4", "\"version\":9"), "has format version 9");
  expect_contains(signed_with("\"scope\":\"block0\"", "\"marks\":\"keep\""), "got the marks 'keep', expected");
  expect_contains(signed_with("diptych-graph", "other"), "got JSON that is not a graph");
  expect_contains(json_error({1, 2}, {}), "got JSON that is not a graph");
  expect_contains(json_error(nlohmann::json::parse(to_json(graph)), {}), "got constant 0, but there are 0");
  expect_contains(json_error(nlohmann::json::parse(to_json(graph)), {at::ones({4})}),
                  "constant 0 was given as f32[4], expected f32[3]");
}

TEST_F(Serialize, AFileThatCanNotBeReadOrWrittenSaysWhy) {
  expect_error([&] { load(path("absent")); }, "No such file or directory");
  expect_error([&] { load(folder_.string()); }, "Is a directory");
  expect_error([&] { save(small(), path("absent/f")); }, "No such file or directory");
  save(small(), path());
  expect_error([&] { load(path()).graph("backward"); }, "got 'backward', expected one of 'forward'");
  Graph odd("bad\xff");
  odd.set_outputs({}, {});
  expect_error([&] { save(odd, path()); }, "is not valid UTF-8");
  Graph random = small();
  random.add_node(Node{Op::find("aten.bernoulli"),
                       {Value{0}, c10::IValue(at::make_generator<at::CPUGeneratorImpl>())},
                       {},
                       {-1},
                       {},
                       {},
                       true},
                  {random.meta(Value{0})});
  expect_error([&] { save(random, path()); }, "is generator(cpu), which a file cannot hold");
}

TEST_F(Serialize, AFailedSaveLeavesTheOldFileAndNoOther) {
  save(small(), path());
  const auto before = read(path());
  Graph odd("bad\xff");
  odd.set_outputs({}, {});
  EXPECT_THROW(save(odd, path()), UserError);
  std::filesystem::create_directories(path("folder"));
  EXPECT_THROW(save(small(), path("folder")), UserError);  // a folder can't be replaced by a file
  EXPECT_EQ(read(path()), before);
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder_))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names, (std::vector<std::string>{"folder", "pair.graphs"}));
}

}  // namespace
}  // namespace diptych
