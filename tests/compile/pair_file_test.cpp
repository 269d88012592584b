// Pairs in files: graphs, signature and free variables come back, and what comes back computes and trains.
#include "diptych/pair/pair_file.h"

#include <unistd.h>

#include <filesystem>

#include "diptych/graph/identical.h"
#include "testing/eager_check.h"
#include "testing/expect_error.h"

namespace diptych::testing {

using namespace detail;
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
  expect_error([&] { make_pair(sine.forward, product.backward); }, "[make_pair] the graphs are not a pair");
  EXPECT_EQ(message_of([&] { make_pair(sine.forward, sine.backward, {x}); }),
            "[make_pair] got 1 free variables, expected 0, one for each slot of that kind");
  save(sine.forward, path);
  expect_error([&] { load_pair(path); }, "holds graphs that are not a pair; read it with load()");
}

constexpr const char* kForward =
    "graph forward(%0 x : f32[2,3] grad, %1 w : f32[2,3] grad)\n"
    "  %2 : f32[2,3] grad = aten.mul.Tensor(%0, %1)\n"
    "  %3 : f32[2,3] grad = aten.sin(%2)\n"
    "  return (%3 y, %2 product residual, %1 factor residual)\n";
constexpr const char* kBackward =
    "graph backward(%0 product : f32[2,3] residual, %1 factor : f32[2,3] residual, %2 y : f32[2,3] tangent)\n"
    "  %3 : f32[2,3] = aten.cos(%0)\n"
    "  %4 : f32[2,3] = aten.mul.Tensor(%2, %3)\n"
    "  %5 : f32[2,3] = aten.mul.Tensor(%4, %1)\n"
    "  return (%5 x gradient, none w gradient)\n";

std::string replaced(std::string text, const std::string& part, const std::string& by) {
  const size_t at = text.find(part);
  EXPECT_NE(at, std::string::npos) << part;
  return text.replace(at, part.size(), by);
}

std::string refusal_of(const std::string& forward, const std::string& backward) {
  return message_of([&] { make_pair(parse(forward), parse(backward)); });
}

std::string no_pair(const std::string& reason) {
  return "[make_pair] the graphs are not a pair: " + reason + "; pass a forward and its backward";
}

TEST_F(PairFile, RefusesTypesThatDiffer) {
  EXPECT_EQ(refusal_of(kForward, kBackward), "nothing was thrown");
  EXPECT_EQ(refusal_of(kForward, replaced(kBackward, "product : f32[2,3]", "product : f64[2,3]")),
            no_pair("for the residual 'product' the forward graph has f32[2,3], and the backward graph f64[2,3]"));
  EXPECT_EQ(refusal_of(kForward, replaced(kBackward, "factor : f32[2,3]", "factor : f32[3]")),
            no_pair("for the residual 'factor' the forward graph has f32[2,3], and the backward graph f32[3]"));
  EXPECT_EQ(refusal_of(kForward, replaced(kBackward, "y : f32[2,3]", "y : f32[6]")),
            no_pair("for the tangent 'y' the forward graph has f32[2,3], and the backward graph f32[6]"));
  EXPECT_EQ(refusal_of(kForward, replaced(kBackward, "%5 : f32[2,3]", "%5 : bf16[2,3]")),
            no_pair("for the gradient 'x' the forward graph has f32[2,3], and the backward graph bf16[2,3]"));
  EXPECT_EQ(refusal_of(replaced(kForward, "%2 product residual", "none product residual"), kBackward),
            no_pair("the forward graph makes no residual 'product'"));
}

// Numbers do not depend on strides, but for what is read by them.
TEST_F(PairFile, RefusesStridesOfAResidualThatTheBackwardReadsBy) {
  const std::string transposed = replaced(kBackward, "product : f32[2,3]", "product : f32[2,3]{1,2}");
  EXPECT_EQ(refusal_of(kForward, transposed), "nothing was thrown");
  EXPECT_EQ(refusal_of(kForward, replaced(transposed, "aten.cos(%0)", "aten.view(%0, [2,3])")),
            no_pair("for the residual 'product' the forward graph has f32[2,3], and the backward graph "
                    "f32[2,3]{1,2}"));
}

TEST_F(PairFile, RefusesSlotsInAnotherOrder) {
  EXPECT_EQ(
      refusal_of(kForward, replaced(kBackward, "(%5 x gradient, none w gradient)", "(none w gradient, %5 x gradient)")),
      no_pair("gradient 0 is that of 'w', expected that of 'x', forward input 0"));
  EXPECT_EQ(refusal_of(kForward, replaced(kBackward, ", none w gradient", "")),
            no_pair("the backward graph returns 1 gradients for 2 forward inputs, expected one each (none where no "
                    "gradient flows)"));
  EXPECT_EQ(refusal_of(replaced(kForward, "x : f32[2,3] grad", "x : f32[2,3] grad free_variable"), kBackward),
            no_pair("forward input 1 'w' is of the kind argument, expected the kinds argument, free_variable, in this "
                    "order"));
  EXPECT_EQ(refusal_of(replaced(kForward, "(%3 y, %2 product residual, %1 factor residual)",
                                "(%2 product residual, %3 y, %1 factor residual)"),
                       kBackward),
            no_pair("forward output 1 'y' is of the kind output, expected the kinds output, mutated, residual, in this "
                    "order"));
  EXPECT_EQ(refusal_of(kForward, replaced(kBackward, "factor : f32[2,3] residual, %2 y : f32[2,3] tangent",
                                          "y : f32[2,3] tangent, %2 factor : f32[2,3] residual")),
            no_pair("backward input 2 'factor' is of the kind residual, expected the kinds residual, tangent, in this "
                    "order"));
}

TEST_F(PairFile, RefusesAFreeVariableThatIsNoTensor) {
  const Graph not_constant = parse("graph free_variables(%0 x : f32[2])\n  return (%0 free.0)\n");
  save(GraphFile{{{"forward", parse(kForward)}, {"backward", parse(kBackward)}, {"free_variables", not_constant}},
                 {{"kind", "pair"}}},
       path);
  EXPECT_EQ(message_of([&] { load_pair(path); }),
            "[load_pair] '" + path + "' does not hold the free variable 0 as a tensor; save the pair again");
}

}  // namespace
}  // namespace diptych::testing
