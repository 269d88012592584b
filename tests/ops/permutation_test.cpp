// Orders of dimensions, as nodes of parsed graphs have them.
#include "diptych/ops/permutation.h"

#include <gtest/gtest.h>

#include "diptych/graph/parse.h"

namespace diptych {

using namespace detail;
namespace {

using Order = std::vector<int64_t>;

std::optional<Order> order_of(const std::string& input, const std::string& node) {
  const Graph graph = parse("graph f(%0 x : " + input + ")\n  %1 : " + node + "\n  return (%1 y)\n");
  return permutation_of(graph.nodes()[0], static_cast<int64_t>(graph.meta(graph.inputs()[0]).sizes.size()));
}

TEST(Permutation, NamesTheDimensionsOfTheOperand) {
  EXPECT_EQ(order_of("f32[2,3,4]", "f32[4,2,3]{1,12,4} = aten.permute(%0, [-1, 0, 1])"), (Order{2, 0, 1}));
  EXPECT_EQ(order_of("f32[2,3,4]", "f32[4,3,2]{1,4,12} = aten.transpose.int(%0, 0, -1)"), (Order{2, 1, 0}));
  EXPECT_EQ(order_of("f32[2,3]", "f32[3,2]{1,3} = aten.t(%0)"), (Order{1, 0}));
  EXPECT_EQ(order_of("f32[2]", "f32[2] = aten.t(%0)"), (Order{0}));
  EXPECT_EQ(order_of("f32[]", "f32[] = aten.transpose.int(%0, 0, -1)"), Order{});
}

TEST(Permutation, IsNothingOfOtherOperators) {
  EXPECT_EQ(order_of("f32[2,3]", "f32[3,2] = aten.view(%0, [3, 2])"), std::nullopt);
  EXPECT_EQ(order_of("f32[2,3]", "f32[2,3] = aten.sin(%0)"), std::nullopt);
}

}  // namespace
}  // namespace diptych
