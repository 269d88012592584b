// Graph text in, graph text out.
#include "diptych/passes/merge_common_nodes.h"

#include <torch/types.h>

#include "testing/pass_case.h"
#include "testing/random_joint.h"

namespace diptych {

using namespace detail;
namespace {

using testing::expect_pass;
using testing::GraphWriter;

size_t nodes_after(const char* text) { return merge_common_nodes(parse(text)).nodes().size(); }

TEST(MergeCommonNodes, ReadsTheFirstOfEqualNodes) {
  expect_pass(merge_common_nodes, R"(graph f(%0 x : f32[2])
  %1 : f32[2] = aten.tanh(%0)
  %2 : f32[2] = aten.tanh(%0)
  %3 : f32[2] = aten.exp(%1)
  %4 : f32[2] = aten.exp(%2)
  %5 : f32[2] = aten.mul.Tensor(%3, %4)
  return (%5 y)
)",
              R"(graph f(%0 x : f32[2])
  %1 : f32[2] = aten.tanh(%0)
  %2 : f32[2] = aten.exp(%1)
  %3 : f32[2] = aten.mul.Tensor(%2, %2)
  return (%3 y)
)");
}

TEST(MergeCommonNodes, TellsConstantOperandsApart) {
  const char* text = R"(graph f(%0 x : f32[2,2])
  %1 : f32[2] = aten.sum.dim_IntList(%0, [0])
  %2 : f32[2] = aten.sum.dim_IntList(%0, [1])
  %3 : f32[2,2] = aten.leaky_relu(%0, 0.5)
  %4 : f32[2,2] = aten.leaky_relu(%0, 0.25)
  %5 : f32[2] = aten.add.Tensor(%1, %2)
  %6 : f32[2,2] = aten.add.Tensor(%3, %4)
  %7 : f32[2,2] = aten.add.Tensor(%5, %6)
  return (%7 y)
)";
  EXPECT_EQ(nodes_after(text), 7U);
}

TEST(MergeCommonNodes, NeverMergesRandomNodes) {
  const char* text = R"(graph f(%0 x : f32[64])
  %1 : f32[64] = aten.rand_like(%0)
  %2 : f32[64] = aten.rand_like(%0)
  %3 : f32[64] = aten.sub.Tensor(%1, %2)
  return (%3 y)
)";
  EXPECT_EQ(nodes_after(text), 3U);
  EXPECT_TRUE(testing::run_alike(parse(text), merge_common_nodes(parse(text))));
}

TEST(MergeCommonNodes, NeverMergesAcrossGradMode) {
  const char* text = R"(graph f(%0 x : f32[2] grad)
  %1 : f32[2] grad = aten.tanh(%0)
  %2 : f32[2] = aten.tanh(%0)  # no_grad
  %3 : f32[2] grad = aten.mul.Tensor(%1, %2)
  return (%3 y)
)";
  EXPECT_EQ(nodes_after(text), 3U);
}

TEST(MergeCommonNodes, LeavesWhatAutogradComputesAgainToThePartitioner) {
  GraphWriter writer;
  const Value x = writer.input(torch::randn({2}));
  const Value a = writer.call("aten.cos", {x});
  writer.phase = Phase::kBackward;
  const Value b = writer.call("aten.cos", {x});
  const Value c = writer.call("aten.cos", {x});
  const Value y = writer.call("aten.add.Tensor", {a, writer.call("aten.add.Tensor", {b, c})});
  EXPECT_EQ(merge_common_nodes(writer.finish({y})).nodes().size(), 4U);
}

TEST(MergeCommonNodes, KeepsTwoOutputsApart) {
  const char* text = R"(graph f(%0 x : f32[2])
  %1 : f32[2] = aten.tanh(%0)
  %2 : f32[2] = aten.tanh(%0)
  %3 : f32[1,2] = aten.unsqueeze(%2, 0)
  return (%1 y, %3 z)
)";
  EXPECT_EQ(nodes_after(text), 3U);
}

TEST(MergeCommonNodes, MergesViewsAndConstantsOfTheSameBytes) {
  expect_pass(merge_common_nodes, R"(graph f(%0 x : f32[2,2])
  %1 : f32[2,2] = constant 0
  %2 : f32[2,2] = constant 1
  %3 : f32[2,2]{1,2} = aten.t(%0)
  %4 : f32[2,2]{1,2} = aten.t(%0)
  %5 : f32[2,2] = aten.mm(%3, %1)
  %6 : f32[2,2] = aten.mm(%4, %2)
  %7 : f32[2,2] = aten.add.Tensor(%5, %6)
  return (%7 y)
)",
              R"(graph f(%0 x : f32[2,2])
  %1 : f32[2,2]{1,2} = aten.t(%0)
  %2 : f32[2,2] = constant 0
  %3 : f32[2,2] = aten.mm(%1, %2)
  %4 : f32[2,2] = aten.add.Tensor(%3, %3)
  return (%4 y)
)",
              {torch::ones({2, 2}), torch::ones({2, 2})});
}

TEST(MergeCommonNodes, KeepsRegionsMarksAndNamesApart) {
  expect_pass([](const Graph& graph) { return merge_common_nodes(graph); }, R"(graph f(%0 x : f32[2])
  %1 : f32[2] = aten.tanh(%0)
  %2 : f32[2] = aten.tanh(%0)  # region a recompute
  %3 : f32[2] = aten.tanh(%0)  # region a recompute
  %4 : f32[2] = aten.tanh(%0)  # region a save
  %5 : f32[2] = aten.tanh(%0)  # region b recompute
  %6 : f32[2] = aten.tanh(%0)  # region b recompute · named h
  %7 : f32[2] = aten.neg(%0)  # backward · region a
  %8 : f32[2] = aten.neg(%0)  # backward · region b
  %9 : f32[8,2] = aten.stack([%1, %2, %3, %4, %5, %6, %7, %8])
  return (%9 y)
)",
              R"(graph f(%0 x : f32[2])
  %1 : f32[2] = aten.tanh(%0)
  %2 : f32[2] = aten.tanh(%0)  # region a recompute
  %3 : f32[2] = aten.tanh(%0)  # region a save
  %4 : f32[2] = aten.tanh(%0)  # region b recompute
  %5 : f32[2] = aten.tanh(%0)  # region b recompute · named h
  %6 : f32[2] = aten.neg(%0)  # backward · region a
  %7 : f32[8,2] = aten.stack([%1, %2, %2, %3, %4, %5, %6, %6])
  return (%7 y)
)");
}

TEST(MergeCommonNodes, LeavesGraphsThatMutateAlone) {
  GraphWriter writer;
  const Value x = writer.input(torch::randn({2}));
  const Value a = writer.call("aten.clone", {x});
  const Value before = writer.call("aten.neg", {a});
  writer.call("aten.add_.Tensor", {a, x});
  const Value after = writer.call("aten.neg", {a});
  const Graph graph = writer.finish({writer.call("aten.mul.Tensor", {before, after})});
  EXPECT_EQ(merge_common_nodes(graph).nodes().size(), graph.nodes().size());
}

TEST(MergeCommonNodes, KeepsWhatRandomJointGraphsCompute) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    auto sample = testing::RandomJoint(seed, 5, 20).make();
    const auto expected = sample.run();
    sample.joint.graph = merge_common_nodes(sample.joint.graph);
    ASSERT_TRUE(testing::same_tensors(sample.run(), expected, {.equal_nan = true})) << seed;
    ASSERT_TRUE(identical(merge_common_nodes(sample.joint.graph), sample.joint.graph)) << seed;
  }
}

}  // namespace
}  // namespace diptych
