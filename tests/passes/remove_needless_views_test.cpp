// Graph text in, graph text out.
#include "diptych/passes/remove_needless_views.h"

#include <torch/types.h>

#include "testing/pass_case.h"

namespace diptych {

using namespace detail;
namespace {

using testing::expect_pass;

Graph without_needless_views(const Graph& graph) { return remove_needless_views(graph); }

TEST(RemoveNeedlessViews, SeesThroughViewsThatComeBack) {
  expect_pass(without_needless_views, R"(graph f(%0 x : f32[2,3])
  %1 : f32[3,2]{1,3} = aten.t(%0)
  %2 : f32[2,3] = aten.t(%1)
  %3 : f32[6] = aten.view(%2, [6])
  %4 : f32[2,3] = aten.view(%3, [2, 3])
  %5 : f32[2,3] = aten.expand(%4, [2, 3])
  %6 : f32[2,3] = aten.alias(%5)
  %7 : f32[2,3] = aten.exp(%6)
  return (%7 y)
)",
              R"(graph f(%0 x : f32[2,3])
  %1 : f32[3,2]{1,3} = aten.t(%0)
  %2 : f32[6] = aten.view(%0, [6])
  %3 : f32[2,3] = aten.exp(%0)
  return (%3 y)
)");
}

TEST(RemoveNeedlessViews, KeepsViewsThatShowOtherElements) {
  const char* text = R"(graph f(%0 x : f32[4])
  %1 : f32[2] = aten.slice.Tensor(%0, start=0, end=2)
  %2 : f32[2] = aten.as_strided(%1, [2], [1], storage_offset=2)
  %3 : f32[2] = aten.slice.Tensor(%0, start=2, end=4)
  %4 : f32[2] = aten.add.Tensor(%2, %3)
  return (%4 y)
)";
  expect_pass(without_needless_views, text, text);
}

TEST(RemoveNeedlessViews, KeepsViewsThatShowOtherNumbers) {
  testing::GraphWriter writer;
  const Value x = writer.input(torch::randn({2}, at::kComplexDouble));
  const Value conj = writer.call("aten._conj", {x});
  const Graph graph = writer.finish({writer.call("aten.mul.Tensor", {conj, conj})});
  EXPECT_EQ(without_needless_views(graph).code(), graph.code());
}

TEST(RemoveNeedlessViews, KeepsOutputsThatAreViews) {
  const char* text = R"(graph f(%0 x : f32[4])
  %1 : f32[4] = aten.view(%0, [4])
  return (%1 y)
)";
  expect_pass(without_needless_views, text, text);
}

TEST(RemoveNeedlessViews, KeepsDetachUnlessTold) {
  const char* text = R"(graph f(%0 x : f32[4] grad)
  %1 : f32[4] = aten.detach(%0)
  %2 : f32[4] grad = aten.mul.Tensor(%0, %1)
  return (%2 y)
)";
  expect_pass(without_needless_views, text, text);
  EXPECT_EQ(remove_needless_views(parse(text), {.keep_gradient_stops = false}).nodes().size(), 1U);
}

TEST(RemoveNeedlessViews, KeepsViewsTakenWithoutGradients) {
  const char* text = R"(graph f(%0 x : f32[4] grad)
  %1 : f32[4] = aten.view(%0, [4])  # no_grad
  %2 : f32[4] grad = aten.mul.Tensor(%0, %1)
  return (%2 y)
)";
  expect_pass(without_needless_views, text, text);
}

}  // namespace
}  // namespace diptych
