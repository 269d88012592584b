// Costs of nodes, against counts made by hand.
#include "diptych/ops/cost.h"

#include <torch/types.h>

namespace diptych {

using namespace detail;
namespace {

/// A graph of one node over float inputs of the given shapes.
Cost cost_of(const char* name, const std::vector<std::vector<int64_t>>& inputs, const std::vector<Operand>& rest,
             const std::vector<std::vector<int64_t>>& outputs) {
  Graph graph;
  Node node{Op::find(name), {}, {}, {}, {}, {}};
  for (const auto& sizes : inputs) {
    node.operands.push_back(graph.add_input(TensorMeta::of(torch::empty(sizes)), {SlotKind::kArgument, "x"}));
  }
  for (const auto& operand : rest) node.operands.push_back(operand);
  std::vector<std::optional<TensorMeta>> metas;
  for (const auto& sizes : outputs) metas.push_back(TensorMeta::of(torch::empty(sizes)));
  const size_t index = graph.add_node(std::move(node), metas);
  return cost(graph, graph.nodes()[index]);
}

TEST(Cost, MatrixProductsCountMultiplyAndAdd) {
  EXPECT_EQ(cost_of("aten.mm", {{4, 5}, {5, 6}}, {}, {{4, 6}}).flops, 2 * 4 * 5 * 6);
  EXPECT_EQ(cost_of("aten.mm", {{4, 5}, {5, 6}}, {}, {{4, 6}}).bytes, 4 * (20 + 30 + 24));
  EXPECT_EQ(cost_of("aten.addmm", {{6}, {4, 5}, {5, 6}}, {c10::IValue(1), c10::IValue(1)}, {{4, 6}}).flops, 240);
  EXPECT_EQ(cost_of("aten.bmm", {{3, 4, 5}, {3, 5, 6}}, {}, {{3, 4, 6}}).flops, 3 * 240);
  EXPECT_EQ(cost_of("aten.mm", {{0, 5}, {5, 6}}, {}, {{0, 6}}).flops, 0);
}

TEST(Cost, ConvolutionCountsEachTapOfTheKernel) {
  EXPECT_EQ(cost_of("aten.convolution", {{2, 3, 8, 8}, {4, 3, 3, 3}}, {Value{}}, {{2, 4, 6, 6}}).flops,
            2 * (2 * 4 * 6 * 6) * (3 * 3 * 3));
}

TEST(Cost, ConvolutionBackwardCountsOnlyTheGradientsAskedFor) {
  const auto flops = [](std::vector<bool> mask) {
    c10::List<bool> list;
    for (const bool wanted : mask) list.push_back(wanted);
    const std::vector<Operand> rest{c10::IValue(), c10::IValue(), c10::IValue(), c10::IValue(),
                                    c10::IValue(), c10::IValue(), c10::IValue(), c10::IValue(list)};
    return cost_of("aten.convolution_backward", {{2, 4, 6, 6}, {2, 3, 8, 8}, {4, 3, 3, 3}}, rest, {{2, 3, 8, 8}}).flops;
  };
  const int64_t once = 2 * (2 * 4 * 6 * 6) * 27;
  EXPECT_EQ(flops({true, true, false}), 2 * once);
  EXPECT_EQ(flops({false, true, false}), once);
}

TEST(Cost, ViewsAreFreeAndCopiesMoveBytes) {
  EXPECT_EQ(nominal_ns(cost_of("aten.t", {{4, 5}}, {}, {{5, 4}})), 0);
  const Cost clone = cost_of("aten.clone", {{4, 5}}, {c10::IValue()}, {{4, 5}});
  EXPECT_EQ(clone.flops, 0);
  EXPECT_EQ(clone.bytes, 160);
}

TEST(Cost, TimeGrowsWithWork) {
  const auto ns = [](int64_t n) { return nominal_ns(cost_of("aten.mm", {{n, n}, {n, n}}, {}, {{n, n}})); };
  EXPECT_LT(ns(64), ns(128));
  EXPECT_LT(nominal_ns(cost_of("aten.relu", {{1024, 1024}}, {}, {{1024, 1024}})), ns(1024));
}

}  // namespace
}  // namespace diptych
