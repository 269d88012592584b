// One graph for several sizes.
#include "diptych/passes/generalize_sizes.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "diptych/graph/map_sizes.h"
#include "diptych/graph/operand.h"
#include "diptych/graph/parse.h"

namespace diptych {

using namespace detail;
namespace {

Graph viewed(int64_t rows, int64_t columns, const char* op = "aten.view") {
  return parse(fmt::format("graph f(%0 x : f32[{0},{1}])\n  %1 : f32[{2}] = {3}(%0, [{2}])\n  return (%1 y)\n", rows,
                           columns, rows * columns, op));
}

std::vector<Graph> graphs_at(const std::vector<SymbolValues>& points) {
  std::vector<Graph> graphs;
  for (const auto& point : points) graphs.push_back(viewed(point[0], 3));
  return graphs;
}

const std::vector<SymbolValues> kPoints{{4}, {2}, {7}, {11}};

TEST(UnifySizes, IntegersBecomePolynomials) {
  const auto unified = unify_sizes(graphs_at(kPoints), kPoints, 1);
  ASSERT_TRUE(unified);
  EXPECT_EQ(unified->code(), R"(graph f(%0 x : f32[s0,3]) where s0=4
  %1 : f32[3*s0] = aten.view(%0, [3*s0])
  return (%1 y)
)");
}

TEST(UnifySizes, WhatDiffersIsNamed) {
  std::string why;
  auto graphs = graphs_at(kPoints);
  graphs[2] = viewed(7, 3, "aten.reshape");
  EXPECT_FALSE(unify_sizes(graphs, kPoints, 1, &why));
  EXPECT_EQ(why, "node 0, aten.view and aten.reshape");
  graphs[2] = viewed(8, 3);
  EXPECT_FALSE(unify_sizes(graphs, kPoints, 1, &why));
  EXPECT_EQ(why, "%0: 4 to 11 is not a polynomial");
}

TEST(UnifySizes, StructureIsAllButIntegers) {
  EXPECT_TRUE(same_structure(viewed(2, 3), viewed(5, 7)));
  EXPECT_FALSE(same_structure(viewed(2, 3), viewed(2, 3, "aten.reshape")));
}

std::optional<GeneralizedSizes> generalize(const TraceAt& trace, std::string& why,
                                           SizeTrust trust = SizeTrust::kProbed) {
  const std::vector<std::vector<int64_t>> examples{{4, 3}, {6, 3}};
  const auto pattern = SizePattern::of(examples);
  return generalize_sizes(*pattern, *pattern->match({6, 3}), trace, trust, why);
}

TEST(GeneralizeSizes, UpToFourTimesWhatWasMet) {
  std::string why;
  const auto found = generalize([](const SymbolValues& s) { return std::vector{viewed(s[0], 3)}; }, why);
  ASSERT_TRUE(found) << why;
  EXPECT_EQ(found->pattern.ranges()[0].first, 2);
  EXPECT_EQ(found->pattern.ranges()[0].last, 24);
  EXPECT_GE(found->points.size(), num_fit_points(1));
  EXPECT_EQ(found->points[0][0], 6);
}

TEST(GeneralizeSizes, EndsWhereTheFunctionDoes) {
  std::string why;
  const auto found = generalize(
      [](const SymbolValues& s) -> std::optional<std::vector<Graph>> {
        if (s[0] > 13) return std::nullopt;
        return std::vector{viewed(s[0], 3, s[0] < 4 ? "aten.reshape" : "aten.view")};
      },
      why);
  ASSERT_TRUE(found) << why;
  EXPECT_EQ(found->pattern.ranges()[0].first, 4);
  EXPECT_EQ(found->pattern.ranges()[0].last, 13);
}

TEST(GeneralizeSizes, NotFromSizesOneApart) {
  std::string why;
  const std::vector<std::vector<int64_t>> examples{{4, 3}, {5, 3}};
  const auto pattern = SizePattern::of(examples);
  const auto found = generalize_sizes(
      *pattern, *pattern->match({5, 3}),
      [](const SymbolValues& s) -> std::optional<std::vector<Graph>> {
        if (s[0] < 4 || s[0] > 5) return std::nullopt;
        return std::vector{viewed(s[0], 3)};
      },
      SizeTrust::kProbed, why);
  EXPECT_FALSE(found);
  EXPECT_NE(why.find("too few sizes"), std::string::npos) << why;
}

TEST(GeneralizeSizes, NotIfEverySizeIsAnother) {
  std::string why;
  EXPECT_FALSE(
      generalize([](const SymbolValues& s) { return std::vector{viewed(s[0] % 2 == 0 ? s[0] : s[0] + 5, 3)}; }, why));
  EXPECT_NE(why.find("is not a polynomial"), std::string::npos) << why;
}

TEST(GeneralizeSizes, ARangeEndsAtABranchThatALikelySizeShows) {
  std::string why;
  const auto found = generalize(
      [](const SymbolValues& s) { return std::vector{viewed(s[0], 3, s[0] == 16 ? "aten.reshape" : "aten.view")}; },
      why);
  ASSERT_TRUE(found) << why;
  EXPECT_EQ(found->pattern.ranges()[0].last, 15) << "both ends, 2 and 24, look alike";
}

TEST(GeneralizeSizes, SizesThatLookAlikeNeedNotBeNextToEachOther) {
  std::string why;
  const auto third = [](const SymbolValues& s) {
    return std::vector{viewed(s[0], 3, s[0] % 3 == 0 ? "aten.view" : "aten.reshape")};
  };
  const auto found = generalize(third, why, SizeTrust::kChecked);
  ASSERT_TRUE(found) << why;
  for (const SymbolValues& point : found->points) EXPECT_EQ(point[0] % 3, 0);
  EXPECT_EQ(found->pattern.ranges()[0].first, 2);
  EXPECT_EQ(found->pattern.ranges()[0].last, kLargestSize);
}

Graph pooled(int64_t rows) {
  const int64_t half = (rows - 2) / 2;
  return parse(
      fmt::format("graph f(%0 x : f32[{0},3])\n  %1 : f32[{1},3] = aten.narrow(%0, 0, 0, {1})\n"
                  "  %2 : f32[{2}] = aten.view(%1, [{2}])\n  return (%2 y)\n",
                  rows, half, 3 * half));
}

TEST(GeneralizeSizes, WhatIsRoundedIsKnownFromSizesThatFollowOneAnother) {
  std::string why;
  const auto found =
      generalize([](const SymbolValues& s) { return std::vector{pooled(s[0])}; }, why, SizeTrust::kChecked);
  ASSERT_TRUE(found) << why;
  EXPECT_EQ(found->graphs[0].code(), R"(graph f(%0 x : f32[s0,3]) where s0=6
  %1 : f32[floor(s0/2)-1,3] = aten.narrow(%0, 0, 0, floor(s0/2)-1)
  %2 : f32[3*floor(s0/2)-3] = aten.view(%1, [3*floor(s0/2)-3])
  return (%2 y)
)");
}

TEST(UnifySizes, NumbersOfSizes) {
  std::vector<Graph> graphs;
  for (const auto& point : kPoints) {
    const auto n = static_cast<double>(point[0]);
    graphs.push_back(parse(fmt::format(
        "graph f(%0 x : f32[{0}])\n  %1 : f32[{0}] = aten.mul.Tensor(%0, number({0}))\n"
        "  %2 : f32[{0}] = aten.mul.Tensor(%1, number({1}))\n  %3 : f32[{0}] = aten.mul.Scalar(%2, {2})\n"
        "  %4 : f32[{0}] = aten.mul.Scalar(%3, {3})\n  %5 : f32[{0}] = aten.mul.Scalar(%4, {0})\n  return (%5 y)\n",
        point[0], float_text(2.0 / (n - 1)), float_text(std::sqrt(n / 3)), float_text(1 / std::sqrt(n)))));
  }
  std::string why;
  const auto unified = unify_sizes(graphs, kPoints, 1, &why);
  ASSERT_TRUE(unified) << why;
  const std::string text = unified->code();
  EXPECT_EQ(text, R"(graph f(%0 x : f32[s0]) where s0=4
  %1 : f32[s0] = aten.mul.Tensor(%0, size(s0))
  %2 : f32[s0] = aten.mul.Tensor(%1, quotient(2, s0-1))
  %3 : f32[s0] = aten.mul.Scalar(%2, root(s0, 3))
  %4 : f32[s0] = aten.mul.Scalar(%3, inverse_root(s0, 1))
  %5 : f32[s0] = aten.mul.Scalar(%4, size(s0))
  return (%5 y)
)");
  EXPECT_EQ(parse(text).code(), text);
  for (size_t i = 0; i < graphs.size(); ++i) {
    EXPECT_TRUE(is_instance(*unified, {{"s0", kPoints[i][0]}}, graphs[i])) << i;
    EXPECT_FALSE(is_instance(*unified, {{"s0", kPoints[i][0] + 1}}, graphs[i])) << i;
  }
}

}  // namespace
}  // namespace diptych
