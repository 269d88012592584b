// Operators in kernels, beside eager; samples/ has the calls of every one.
#include "backends/native/lowering_check.h"

namespace diptych {
namespace {

using namespace detail;
using testing::GraphWriter;

TEST(LowerOperators, ExpandedOperandsAreReadWhereTheyAre) {
  GraphWriter w;
  const Value x = w.input(testing::values({4, 1}));
  const Value y = w.call("aten.neg", {w.call("aten.expand", {x, testing::ints({3, 4, 5})})});
  EXPECT_TRUE(testing::like_eager(w, {y}));
}

TEST(LowerOperators, DropoutPassesTheGradientOfWhatItKept) {
  GraphWriter w;
  const Value g = w.input(testing::values({4, 3})), mask = w.input(testing::values({4, 3}, 1).gt(0));
  const Value y = w.call("aten.native_dropout_backward", {g, mask, c10::IValue(1.25)});
  EXPECT_TRUE(testing::like_eager(w, {y}));
}

TEST(LowerOperators, WhatEagerRaisesErrorsForIsNotLowered) {
  GraphWriter w;
  const Value x = w.input(at::arange(6).add(1)), y = w.input(at::arange(6).add(2));
  w.call("aten.div.Tensor_mode", {x, y, c10::IValue("floor")});
  w.call("aten.remainder.Tensor", {x, y});
  w.call("aten.fmod.Tensor", {x, y});
  const Graph graph = w.finish({x});
  for (const Node& node : graph.nodes()) EXPECT_FALSE(is_lowered_to_kernels(graph, node)) << node.op.name();
}

}  // namespace
}  // namespace diptych
