// Draws in front: what moves, what stays, and that each generator is read in eager's order.
#include "diptych/passes/draw_first.h"

#include <ATen/Context.h>
#include <torch/types.h>

#include "diptych/ops/tags.h"
#include "testing/pass_case.h"

namespace diptych {

using namespace detail;
namespace {

using testing::expect_pass;

// How many nodes stand in front of the last draw, and neither draw nor make an operand for a draw.
size_t num_in_front(const Graph& graph) {
  size_t count = 0, found = 0;
  for (const Node& node : graph.nodes()) {
    const bool is_of_draws = draws_random(node) || leaves_values_unset(node.op);
    count += is_of_draws ? 0 : 1;
    if (draws_random(node)) found = count;
  }
  return found;
}

void expect_all_in_front(const std::string& text) {
  const Graph graph = parse(text), moved = draw_first(graph);
  EXPECT_EQ(num_in_front(moved), 0U) << moved.code();
  EXPECT_TRUE(testing::run_alike(graph, moved)) << moved.code();
}

TEST(DrawFirst, ReadsSizesFromNoTensor) {
  expect_pass(draw_first, R"(graph f(%0 x : f32[2])
  %1 : f32[2] = aten.tanh(%0)
  %2 : f32[2] = aten.rand_like(%1)
  %3 : f32[2] = aten.mul.Tensor(%1, %2)
  return (%3 y)
)",
              R"(graph f(%0 x : f32[2])
  %1 : f32[2] = aten.empty_strided([2], [1], dtype=f32, device=device(cpu))  # by draw_first
  %2 : f32[2] = aten.rand_like(%1)
  %3 : f32[2] = aten.tanh(%0)
  %4 : f32[2] = aten.mul.Tensor(%3, %2)
  return (%4 y)
)");
}

TEST(DrawFirst, DecomposesWhatDrawsAndComputes) {
  expect_all_in_front(R"(graph f(%0 x : f32[4,5])
  %1 : f32[4,5] = aten.exp(%0)
  %2 : f32[4,5], %3 : b8[4,5] = aten.native_dropout(%1, 0.5, true)
  %4 : f32[4,5] = aten.normal.Tensor_Tensor(%2, %1)
  %5 : f32[4,5] = aten.normal.Tensor_float(%4, 2.0)
  %6 : f32[4,5] = aten.normal.float_Tensor(3.0, %1)
  %7 : f32[4,5] = aten.sigmoid(%6)
  %8 : f32[4,5] = aten.bernoulli(%7)
  %9 : f32[4,5] = aten.bernoulli.Tensor(%8, %7)
  return (%2 a, %3 b, %5 c, %6 d, %8 e, %9 f)
)");
}

TEST(DrawFirst, DrawsInTheLayoutOfTheOperand) {
  expect_all_in_front(R"(graph f(%0 x : f32[5,4])
  %1 : f32[5,4] = aten.exp(%0)
  %2 : f32[4,5]{1,4} = aten.t(%1)
  %3 : f32[4,5]{1,4} = aten.randn_like(%2)
  %4 : f32[4,5]{1,4} = aten.uniform(%2)
  %5 : f32[4,5]{1,4} = aten.bernoulli.p(%2, 0.5)
  return (%3 a, %4 b, %5 c)
)");
}

TEST(DrawFirst, ADrawThatReadsElementsKeepsItsPlace) {
  const Graph graph = parse(R"(graph f(%0 x : f32[4])
  %1 : f32[4] = aten.exp(%0)
  %2 : f32[4] = aten.rand_like(%1)
  %3 : i64[1] = aten.multinomial(%1, 1)
  %4 : f32[4] = aten.sin(%1)
  %5 : f32[4] = aten.rand_like(%4)
  return (%2 a, %3 b, %5 c)
)");
  const Graph moved = draw_first(graph);
  EXPECT_TRUE(testing::run_alike(graph, moved));
  std::vector<std::string> names;
  for (const Node& node : moved.nodes()) names.emplace_back(node.op.name());
  EXPECT_EQ(names, (std::vector<std::string>{"aten.empty_strided", "aten.rand_like", "aten.exp", "aten.multinomial",
                                             "aten.empty_strided", "aten.rand_like"}));
}

TEST(DrawFirst, KeepsDrawsThatNothingReads) {
  expect_all_in_front(R"(graph f(%0 x : f32[4])
  %1 : f32[4] = aten.exp(%0)
  %2 : f32[4] = aten.rand_like(%1)
  %3 : f32[4] = aten.rand_like(%1)
  return (%3 a)
)");
}

TEST(DrawFirst, AGraphWithoutDrawsStaysAsItIs) {
  const Graph graph = parse(R"(graph f(%0 x : f32[4])
  %1 : f32[4] = aten.exp(%0)
  return (%0 a)
)");
  EXPECT_EQ(draw_first(graph).code(), graph.code());
}

}  // namespace
}  // namespace diptych
