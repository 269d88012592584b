// Draws from a seed: what the graph becomes, and what stays on the host.
#include "diptych/passes/draw_on_device.h"

#include <gtest/gtest.h>

#include "diptych/graph/parse.h"
#include "diptych/graph/verify.h"
#include "diptych/ops/tags.h"

namespace diptych {

using namespace detail;
namespace {

std::vector<std::string> drawing(const Graph& graph) {
  std::vector<std::string> names;
  for (const Node& node : graph.nodes()) {
    if (draws_random(node)) names.emplace_back(node.op.name());
  }
  return names;
}

TEST(DrawOnDevice, TakesBitsFromOneSeed) {
  const Graph graph = parse(R"(graph f(%0 x : f32[2])
  %1 : f32[2] = aten.tanh(%0)
  %2 : f32[2] = aten.rand_like(%1)
  %3 : f32[2] = aten.bernoulli.p(%1, 0.25)
  return (%2 y, %3 z)
)");
  const Graph seeded = draw_on_device(graph);
  EXPECT_FALSE(find_problem(seeded));
  EXPECT_EQ(seeded.code(), R"(graph f(%0 x : f32[2])
  %1 : i64[2] = aten.randint.low(-9223372036854775808, 9223372036854775807, [2], device=device(cpu))  # by draw_on_device
  %2 : i32[2], %3 : i64[2] = diptych.draw_bits(%1, [2], i32)  # by draw_on_device
  %4 : i32[2] = aten.bitwise_and.Scalar(%2, 16777215)  # by draw_on_device
  %5 : f32[2] = aten._to_copy(%4, dtype=f32)  # by draw_on_device
  %6 : f32[2] = aten.mul.Tensor(%5, number(5.960464477539063e-08))  # by draw_on_device
  %7 : i32[2], %8 : i64[2] = diptych.draw_bits(%3, [2], i32)  # by draw_on_device
  %9 : b8[2] = aten.lt.Scalar(%7, -1073741824)  # by draw_on_device
  %10 : f32[2] = aten._to_copy(%9, dtype=f32)  # by draw_on_device
  return (%6 y, %10 z)
)");
}

TEST(DrawOnDevice, WhatHasNoSamplerStays) {
  const Graph graph = parse(R"(graph f(%0 x : f32[4])
  %1 : f32[4] = aten.rand_like(%0)
  %2 : i64[4] = aten.randperm(4)
  %3 : i64[1] = aten.multinomial(%1, 1)
  %4 : f32[4] = aten.poisson(%1)
  return (%1 a, %2 b, %3 c, %4 d)
)");
  EXPECT_EQ(drawing(draw_on_device(graph)),
            (std::vector<std::string>{"aten.randint.low", "aten.randperm", "aten.multinomial", "aten.poisson"}));
}

TEST(DrawOnDevice, WhatEagerRefusesStays) {
  const Graph graph = parse(R"(graph f(%0 x : f32[4])
  %1 : f32[4] = aten.bernoulli.p(%0, 1.5)
  %2 : f32[4] = aten.uniform(%0, 3.0, 1.0)
  %3 : f32[4] = aten.normal_functional(%0, 0.0, -1.0)
  %4 : f32[4] = aten.exponential(%0, 0.0)
  return (%1 a, %2 b, %3 c, %4 d)
)");
  EXPECT_EQ(draw_on_device(graph).code(), graph.code());
}

TEST(DrawOnDevice, IsDoneOnce) {
  const Graph graph = parse(R"(graph f(%0 x : f32[4])
  %1 : f32[4] = aten.randn_like(%0)
  %2 : f32[4], %3 : b8[4] = aten.native_dropout(%1, 0.5, true)
  return (%2 a, %3 b)
)");
  const Graph seeded = draw_on_device(graph);
  EXPECT_EQ(drawing(seeded), std::vector<std::string>{"aten.randint.low"});
  EXPECT_EQ(draw_on_device(seeded).code(), seeded.code());
}

TEST(DrawOnDevice, AGraphWithoutDrawsStaysAsItIs) {
  const Graph graph = parse(R"(graph f(%0 x : f32[4])
  %1 : f32[4] = aten.exp(%0)
  return (%0 a)
)");
  EXPECT_EQ(draw_on_device(graph).code(), graph.code());
}

}  // namespace
}  // namespace diptych
