// Graph text in, graph text out.
#include "diptych/passes/reuse_results.h"

#include <gtest/gtest.h>

#include "testing/pass_case.h"

namespace diptych {

using namespace detail;
namespace {

constexpr const char* kEarlier = R"(graph earlier(%0 x : f32[2,2], %1 w : f32[2,2])
  %2 : f32[2,2] = aten.mm(%0, %1)
  %3 : f32[2,2] = aten.tanh(%2)
  %4 : f32[2,2] = aten.mm(%3, %1)
  return (%2 handed_on, %4 handed_on)
)";

ReusingGraph reuse(const char* text) {
  ReusingGraph found = reuse_results(parse(text), parse(kEarlier));
  verify(found.graph);
  return found;
}

TEST(ReuseResults, TakesWhatIsComputedAlike) {
  const auto found = reuse(R"(graph f(%0 x : f32[2,2], %1 w : f32[2,2])
  %2 : f32[2,2] = aten.mm(%0, %1)
  %3 : f32[2,2] = aten.tanh(%2)
  %4 : f32[2,2] = aten.mm(%3, %1)
  %5 : f32[2,2] = aten.sin(%4)
  %6 : f32[2,2] = aten.mul.Tensor(%5, %3)
  return (%6 y)
)");
  EXPECT_EQ(found.taken, (std::vector<size_t>{0, 1}));
  EXPECT_EQ(found.graph.code(),
            R"(graph f(%0 x : f32[2,2], %1 w : f32[2,2], %2 handed_on.0 : f32[2,2], %3 handed_on.1 : f32[2,2])
  %4 : f32[2,2] = aten.tanh(%2)
  %5 : f32[2,2] = aten.sin(%3)
  %6 : f32[2,2] = aten.mul.Tensor(%5, %4)
  return (%6 y)
)");
}

TEST(ReuseResults, LeavesOutWhatNobodyReadsThen) {
  const auto found = reuse(R"(graph f(%0 x : f32[2,2], %1 w : f32[2,2])
  %2 : f32[2,2] = aten.mm(%0, %1)
  %3 : f32[2,2] = aten.tanh(%2)
  %4 : f32[2,2] = aten.mm(%3, %1)
  return (%4 y)
)");
  EXPECT_EQ(found.taken, std::vector<size_t>{1});
  EXPECT_TRUE(found.graph.nodes().empty());
}

TEST(ReuseResults, OneResultStandsForOneNode) {
  const auto found = reuse(R"(graph f(%0 x : f32[2,2], %1 w : f32[2,2])
  %2 : f32[2,2] = aten.mm(%0, %1)
  %3 : f32[2,2] = aten.mm(%0, %1)
  return (%2 y, %3 z)
)");
  EXPECT_EQ(found.taken, std::vector<size_t>{0});
  EXPECT_EQ(found.graph.nodes().size(), 1U);
  EXPECT_FALSE(found.graph.outputs()[0] == found.graph.outputs()[1]);
}

TEST(ReuseResults, OtherOperandsAreOtherResults) {
  const char* text = R"(graph f(%0 x : f32[2,2], %1 w : f32[2,2])
  %2 : f32[2,2] = aten.mm(%1, %0)
  %3 : f32[2,2] = aten.sin(%2)
  %4 : f32[2,2] = aten.mm(%3, %1)
  return (%4 y)
)";
  const auto found = reuse(text);
  EXPECT_TRUE(found.taken.empty());
  EXPECT_EQ(found.graph.code(), parse(text).code());
}

TEST(ReuseResults, FurtherInputsAreUnknown) {
  const auto found = reuse(R"(graph f(%0 x : f32[2,2], %1 w : f32[2,2], %2 v : f32[2,2])
  %3 : f32[2,2] = aten.mm(%0, %1)
  %4 : f32[2,2] = aten.mm(%3, %2)
  return (%4 y)
)");
  EXPECT_EQ(found.taken, std::vector<size_t>{0});
  EXPECT_EQ(found.graph.nodes().size(), 1U);
}

TEST(ReuseResults, LooksThroughCopies) {
  const auto found = reuse(R"(graph f(%0 x : f32[2,2], %1 w : f32[2,2])
  %2 : f32[2,2] = aten.clone(%1)
  %3 : f32[2,2] = aten.mm(%0, %2)
  %4 : f32[2,2] = aten.clone(%3)
  return (%3 y, %4 z, %2 v)
)");
  EXPECT_EQ(found.taken, std::vector<size_t>{0});
  EXPECT_EQ(found.graph.nodes().size(), 2U);
  EXPECT_EQ(found.graph.outputs()[0], found.graph.inputs()[2]);
}

TEST(ReuseResults, DrawsStayAndWhatReadsThemIsComputed) {
  const auto found = reuse(R"(graph f(%0 x : f32[2,2], %1 w : f32[2,2])
  %2 : f32[2,2] = aten.mm(%0, %1)
  %3 : f32[2,2] = aten.rand_like(%2)
  %4 : f32[2,2] = aten.tanh(%2)
  %5 : f32[2,2] = aten.mul.Tensor(%4, %3)
  %6 : f32[2,2] = aten.mm(%5, %1)
  return (%6 y)
)");
  EXPECT_EQ(found.taken, std::vector<size_t>{0});
  EXPECT_EQ(found.graph.nodes().size(), 4U);
}

}  // namespace
}  // namespace diptych
