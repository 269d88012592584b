// Pairs in files: graphs, signature and free variables come back, and what comes back computes and trains.
#include "diptych/compile/pair_file.h"

#include <unistd.h>

#include <filesystem>

#include "compile/eager_check.h"
#include "diptych/graph/identical.h"
#include "testing/message_of.h"

namespace diptych::testing {
namespace {

class PairFile : public ::testing::Test {
 protected:
  void SetUp() override {
    path = (std::filesystem::temp_directory_path() / ("diptych_pair_" + std::to_string(::getpid()))).string();
  }
  void TearDown() override { std::filesystem::remove(path); }
  std::string path;
};

TEST_F(PairFile, GivesBackWhatWasSaved) {
  const at::Tensor free = torch::randn({3});
  const auto f = [&](const at::Tensor& x, const at::Tensor& w) {
    const auto step = [&](const at::Tensor& c, const at::Tensor& row) {
      return std::pair(torch::tanh(c * row + free), c.clone());
    };
    return std::pair(scan(step, w, x), x.t());
  };
  const auto x = torch::randn({4, 3}).requires_grad_(), w = torch::randn({3}).requires_grad_();
  const Pair pair = capture_with({.partition = min_cut()}, f, x, w);
  save(pair, path);
  const Pair loaded = load_pair(path);
  EXPECT_TRUE(identical(loaded.forward, pair.forward));
  EXPECT_TRUE(identical(loaded.backward, pair.backward));
  EXPECT_EQ(mismatch(pair.signature, loaded.signature), std::nullopt);
  EXPECT_EQ(loaded.signature.str(), pair.signature.str());
  ASSERT_EQ(loaded.free_variables.size(), 1U);
  EXPECT_TRUE(loaded.free_variables[0].equal(free));
  EXPECT_FALSE(loaded.explain().empty());
  const auto ours = loaded.forward_call({x, w}), theirs = pair.forward_call({x, w});
  ASSERT_EQ(ours.outputs.size(), theirs.outputs.size());
  Tensors tangents;
  for (size_t i = 0; i < ours.outputs.size(); ++i) {
    EXPECT_TRUE(ours.outputs[i].equal(theirs.outputs[i]));
    tangents.push_back(torch::randn_like(ours.outputs[i]));
  }
  const auto a = loaded.backward_call(ours.residuals, tangents), b = pair.backward_call(theirs.residuals, tangents);
  for (size_t i = 0; i < a.size(); ++i) EXPECT_EQ(a[i].defined() ? a[i].equal(b[i]) : !b[i].defined(), true) << i;
}

TEST_F(PairFile, RefusesGraphsThatAreNoPair) {
  const auto x = torch::ones({2}).requires_grad_();
  const Pair sine = capture([](const at::Tensor& t) { return t.sin(); }, x);
  const Pair product = capture([](const at::Tensor& t, const at::Tensor& u) { return t * u; }, x, x + 1);
  EXPECT_NE(message_of([&] { make_pair(sine.forward, product.backward); }).find("[make_pair] the graphs are no pair"),
            std::string::npos);
  EXPECT_EQ(message_of([&] { make_pair(sine.forward, sine.backward, {x}); }),
            "[make_pair] got 1 free variables, expected 0, one for each slot of that kind");
  save(sine.forward, path);
  EXPECT_NE(message_of([&] { load_pair(path); }).find("holds graphs that are no pair; read it with load()"),
            std::string::npos);
}

}  // namespace
}  // namespace diptych::testing
