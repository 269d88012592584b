// Patterns of sizes, polynomials through them, and graphs for given ones.
#include <gtest/gtest.h>

#include <random>

#include "diptych/graph/map_sizes.h"
#include "diptych/graph/parse.h"
#include "diptych/graph/size_fit.h"
#include "diptych/graph/size_pattern.h"

namespace diptych {
namespace {

using Lists = std::vector<std::vector<int64_t>>;

TEST(SizePattern, WhatChangesIsASymbolOrFollowsFromOne) {
  const auto pattern = SizePattern::of(Lists{{8, 16, 128, 3, 7, 64, 70}, {10, 16, 160, 3, 9, 100, 90}});
  ASSERT_TRUE(pattern);
  EXPECT_EQ(pattern->num_symbols(), 1U);
  // The smallest entry that changes is s = 7 -> 9; the others are s+1, 16*(s+1), (s+1)^2 and 10*s.
  EXPECT_FALSE(pattern->match({8, 16, 128, 3, 7, 65, 70}));
  EXPECT_TRUE(pattern->match({9, 16, 144, 3, 8, 81, 80}));
  EXPECT_EQ((*pattern->match({10, 16, 160, 3, 9, 100, 90}))[0], 9);
}

TEST(SizePattern, ProductsOfTwoSymbols) {
  const auto pattern = SizePattern::of(Lists{{8, 16, 128, 256}, {10, 24, 240, 576}});
  ASSERT_TRUE(pattern);
  EXPECT_EQ(pattern->num_symbols(), 2U);
  const SymbolValues symbols{9, 20};
  EXPECT_EQ(pattern->at(symbols), (std::vector<int64_t>{9, 20, 180, 400}));
  EXPECT_EQ(*pattern->match({9, 20, 180, 400}), symbols);
  EXPECT_FALSE(pattern->match({9, 20, 181, 400}));
  EXPECT_FALSE(pattern->match({9, 20, 180}));
  EXPECT_FALSE(pattern->match({11, 20, 220, 400})) << "beyond what was met";
}

TEST(SizePattern, NoneWithoutAnythingInCommon) {
  EXPECT_FALSE(SizePattern::of(Lists{{8, 3}, {8, 3}})) << "nothing changes";
  EXPECT_FALSE(SizePattern::of(Lists{{8, 3}, {1, 3}})) << "1 is a case of its own";
  EXPECT_FALSE(SizePattern::of(Lists{{0, 3}, {8, 3}})) << "so is 0";
  EXPECT_FALSE(SizePattern::of(Lists{{8, 3}, {8, 3, 1}})) << "more dimensions";
  EXPECT_FALSE(SizePattern::of(Lists{{100, 203, 307, 411, 519}, {131, 257, 353, 461, 577}})) << "five symbols";
}

TEST(SizePattern, ListsThatDoNotFitAreLeftOut) {
  const Lists earlier{{1, 3}, {8, 3}};
  const auto pattern = SizePattern::with(earlier, {10, 3});
  ASSERT_TRUE(pattern);
  EXPECT_TRUE(pattern->match({9, 3}));
  EXPECT_FALSE(SizePattern::with(Lists{{1, 3}}, {10, 3}));
}

TEST(SizePattern, WhatItMakesItMatches) {
  std::mt19937 random(5);
  const auto below = [&](int64_t end) { return static_cast<int64_t>(random() % static_cast<uint64_t>(end)); };
  for (int trial = 0; trial < 200; ++trial) {
    Lists examples(3);
    const int64_t scale = below(50) + 1;
    for (auto& list : examples) {
      const int64_t a = below(60) + 2, b = below(500) + 70;
      list = {a, b, scale * a, a * b, scale, b * b};
    }
    const auto pattern = SizePattern::of(examples);
    if (!pattern) continue;
    for (const auto& list : examples) {
      const auto symbols = pattern->match(list);
      ASSERT_TRUE(symbols);
      EXPECT_EQ(pattern->at(*symbols), list);
    }
  }
}

TEST(FitSize, FindsPolynomialsAndRefusesOthers) {
  const std::vector<SymbolValues> points{{7}, {2}, {5}, {10}};
  const auto fit = [&](auto function) -> std::string {
    std::vector<int64_t> values;
    for (const auto& point : points) values.push_back(function(point[0]));
    const auto found = fit_size(values, points, 1);
    return found ? found->str() : "none";
  };
  EXPECT_EQ(fit([](int64_t) { return 12; }), "12");
  EXPECT_EQ(fit([](int64_t s) { return 6 * s; }), "6*s0");
  EXPECT_EQ(fit([](int64_t s) { return s - 1; }), "s0-1");
  EXPECT_EQ(fit([](int64_t s) { return 3 * s * s; }), "3*s0^2");
  EXPECT_EQ(fit([](int64_t s) { return s * s + 2 * s; }), "s0^2+2*s0");
  EXPECT_EQ(fit([](int64_t s) { return s * (s + 1) / 2; }), "(s0^2+s0)/2");
  EXPECT_EQ(fit([](int64_t s) { return s / 2; }), "none");
  EXPECT_EQ(fit([](int64_t s) { return std::min<int64_t>(s, 5); }), "none");
}

TEST(FitSize, NothingThatIsAFractionSomewhere) {
  const std::vector<SymbolValues> even{{8}, {2}, {4}, {16}};
  EXPECT_FALSE(fit_size({4, 1, 2, 8}, even, 1)) << "s0/2, seen at even sizes only";
}

TEST(FitSize, TwoSymbols) {
  const std::vector<SymbolValues> points{{7, 3}, {2, 5}, {5, 11}, {10, 2}, {3, 3}, {4, 13}, {8, 6}};
  std::vector<int64_t> sums, products;
  for (const auto& point : points) {
    sums.push_back(4 * point[0] + point[1] + 1);
    products.push_back(point[0] * point[1] * point[1]);
  }
  EXPECT_EQ(fit_size(sums, points, 2)->str(), "4*s0+s1+1");
  EXPECT_EQ(fit_size(products, points, 2)->str(), "s0*s1^2");
  EXPECT_EQ(fit_size(products, points, 2)->hint(), 63) << "the first point's";
}

TEST(Instantiate, EverySymbolBecomesItsValue) {
  const Graph graph = parse(R"(graph f(%0 x : f32[s0,3]) where s0=4
  %1 : f32[3*s0] = aten.view(%0, [3*s0])
  return (%1 y)
)");
  const Graph seven = instantiate(graph, {{"s0", 7}});
  EXPECT_TRUE(has_dynamic_sizes(graph));
  EXPECT_FALSE(has_dynamic_sizes(seven));
  EXPECT_EQ(seven.code(), R"(graph f(%0 x : f32[7,3])
  %1 : f32[21] = aten.view(%0, [21])
  return (%1 y)
)");
}

}  // namespace
}  // namespace diptych
