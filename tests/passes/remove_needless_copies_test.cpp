// Graph text in, graph text out.
#include "diptych/passes/remove_needless_copies.h"

#include <torch/types.h>

#include "testing/pass_case.h"
#include "testing/random_joint.h"

namespace diptych {

using namespace detail;
namespace {

using testing::expect_pass;
using testing::GraphWriter;

Graph without_needless_copies(const Graph& graph) { return remove_needless_copies(graph); }

TEST(RemoveNeedlessCopies, ReadsTheOriginal) {
  expect_pass(without_needless_copies, R"(graph f(%0 x : f32[2])
  %1 : f32[2] = aten.clone(%0)
  %2 : f32[2] = aten.clone(%1)
  %3 : f32[2] = aten._to_copy(%2, dtype=f32)
  %4 : f32[2] = aten.exp(%3)
  return (%4 y)
)",
              R"(graph f(%0 x : f32[2])
  %1 : f32[2] = aten.exp(%0)
  return (%1 y)
)");
}

TEST(RemoveNeedlessCopies, KeepsCopiesThatChangeDtypeOrLayout) {
  const char* text = R"(graph f(%0 x : f32[2,3]{1,2})
  %1 : f32[2,3] = aten.clone(%0, memory_format=contiguous_format)
  %2 : f64[2,3] = aten._to_copy(%1, dtype=f64)
  %3 : f64[2,3] = aten.exp(%2)
  return (%3 y)
)";
  expect_pass(without_needless_copies, text, text);
}

TEST(RemoveNeedlessCopies, KeepsCopiesOfViewsThatLieAsTheirOperands) {
  const char* text = R"(graph f(%0 x : c64[2,2])
  %1 : c64[2,2] = aten.exp(%0)
  %2 : c64[2,2] = aten.permute_copy(%1, [1, 0])
  %3 : c64[2,2] = aten.transpose_copy.int(%2, 0, 1)
  %4 : c64[2,2] = aten.t_copy(%3)
  %5 : c64[2,2] = aten.as_strided_copy(%4, [2, 2], [1, 2])
  %6 : c64[2,2] = aten._conj_copy(%5)
  %7 : c64[2,2] = aten._neg_view_copy(%6)
  %8 : c64[2,2] = aten.exp(%7)
  return (%8 y)
)";
  expect_pass(without_needless_copies, text, text);
}

TEST(RemoveNeedlessCopies, KeepsAnOutputThatIsAFreshCloneOfAnInput) {
  const char* text = R"(graph f(%0 x : f32[2])
  %1 : f32[2] = aten.clone(%0)
  %2 : f32[2] = aten.exp(%0)
  %3 : f32[2] = aten.clone(%2)
  %4 : f32[1,2] = aten.unsqueeze(%3, 0)
  return (%1 y, %4 z)
)";
  expect_pass(without_needless_copies, text, text);
}

TEST(RemoveNeedlessCopies, KeepsCopiesThatCutGradientsOff) {
  const char* text = R"(graph f(%0 x : f32[2] grad)
  %1 : f32[2] = aten.clone(%0)  # no_grad
  %2 : f32[2] grad = aten.mul.Tensor(%0, %1)
  return (%2 y)
)";
  expect_pass(without_needless_copies, text, text);
  EXPECT_EQ(remove_needless_copies(parse(text), {.keep_gradient_stops = false}).nodes().size(), 1U);
}

// x is the caller's: eager's backward reads the clone, whatever the caller has written to x since. Through a second
// clone it is no different.
TEST(RemoveNeedlessCopies, KeepsWhatShieldsTheBackwardFromItsCaller) {
  GraphWriter writer;
  const Value x = writer.input(torch::randn({2}));
  const Value once = writer.call("aten.clone", {x});
  const Value twice = writer.call("aten.clone", {once});
  const Value y = writer.call("aten.sin", {twice});
  writer.phase = Phase::kBackward;
  const Value t = writer.input(torch::randn({2}), "t", SlotKind::kTangent);
  const Value g = writer.call("aten.mul.Tensor", {t, writer.call("aten.cos", {twice})});
  const Graph result = without_needless_copies(writer.finish({y, g}));
  ASSERT_EQ(result.nodes().size(), 4U);
  EXPECT_EQ(result.nodes()[0].op.name(), "aten.clone");
  EXPECT_EQ(result.nodes()[1].op.name(), "aten.sin");
}

TEST(RemoveNeedlessCopies, KeepsWhatRandomJointGraphsCompute) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    auto sample = testing::RandomJoint(seed, 5, 20).make();
    const auto expected = sample.run();
    sample.joint.graph = without_needless_copies(sample.joint.graph);
    ASSERT_TRUE(testing::same_tensors(sample.run(), expected, {.equal_nan = true})) << seed;
  }
}

}  // namespace
}  // namespace diptych
