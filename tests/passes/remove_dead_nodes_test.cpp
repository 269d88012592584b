// Graph text in, graph text out.
#include "diptych/passes/remove_dead_nodes.h"

#include <torch/types.h>

#include "testing/pass_case.h"

namespace diptych {

using namespace detail;
namespace {

using testing::expect_pass;

Graph without_dead_nodes(const Graph& graph) { return remove_dead_nodes(graph); }

TEST(RemoveDeadNodes, DropsWhatNoOutputNeeds) {
  expect_pass(without_dead_nodes, R"(graph f(%0 x : f32[2], %1 unused : f32[2])
  %2 : f32[2] = aten.tanh(%0)
  %3 : f32[2] = aten.exp(%2)
  %4 : f32[2] = aten.neg(%3)
  return (%2 y, none z)
)",
              R"(graph f(%0 x : f32[2], %1 unused : f32[2])
  %2 : f32[2] = aten.tanh(%0)
  return (%2 y, none z)
)");
}

TEST(RemoveDeadNodes, KeepsRandomNodesBecauseTheyMoveTheGenerator) {
  const auto dropout = parse(R"(graph f(%0 x : f32[2])
  %1 : f32[2], %2 : b8[2] = aten.native_dropout(%0, 0.5, true)
  %3 : f32[2] = aten.bernoulli.p(%0, 0.5)
  %4 : f32[2] = aten.rand_like(%0)
  return (%4 y)
)");
  const auto result = without_dead_nodes(dropout);
  EXPECT_EQ(result.nodes().size(), 3U);
  EXPECT_TRUE(testing::run_alike(dropout, result));
}

TEST(RemoveDeadNodes, DropsDropoutOutsideTraining) {
  const auto graph = parse(R"(graph f(%0 x : f32[2])
  %1 : f32[2], %2 : b8[2] = aten.native_dropout(%0, 0.5, false)
  return (%0 y)
)");
  EXPECT_EQ(without_dead_nodes(graph).nodes().size(), 0U);
}

TEST(RemoveDeadNodes, DropsConstantsThatNothingReads) {
  const auto graph = parse(R"(graph f(%0 x : f32[2])
  %1 : f32[2] = constant 0
  %2 : f32[2] = aten.neg(%1)
  return (%0 y)
)",
                           {torch::ones({2})});
  EXPECT_TRUE(without_dead_nodes(graph).constants().empty());
}

TEST(RemoveDeadNodes, KeepsTheForwardWhereVariantsShareIt) {
  testing::GraphWriter writer;
  const Value x = writer.input(torch::randn({2}));
  writer.call("aten.tanh", {x});
  writer.phase = Phase::kBackward;
  writer.call("aten.exp", {x});
  const Graph graph = writer.finish({x});
  EXPECT_EQ(without_dead_nodes(graph).nodes().size(), 0U);
  const auto kept = remove_dead_nodes(graph, {.keep_forward = true});
  ASSERT_EQ(kept.nodes().size(), 1U);
  EXPECT_EQ(kept.nodes()[0].op.name(), "aten.tanh");
}

}  // namespace
}  // namespace diptych
