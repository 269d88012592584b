// Patterns of sizes, polynomials through them, and graphs for given ones.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "diptych/base/error.h"
#include "diptych/graph/map_sizes.h"
#include "diptych/graph/parse.h"
#include "diptych/graph/size_fit.h"
#include "diptych/graph/size_fitter.h"
#include "diptych/graph/size_pattern.h"

namespace diptych {

using namespace detail;
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

TEST(SizeExpr, RoundsDown) {
  const SizeExpr n = SizeExpr::symbol("s0", 7);
  const SizeExpr half = (n + SizeExpr(1)).divided_by(2).floor();
  EXPECT_EQ(half.str(), "floor((s0+1)/2)");
  EXPECT_EQ(half.hint(), 4);
  EXPECT_EQ(half.evaluate({{"s0", 8}}), 4);
  EXPECT_EQ((half * half - n).str(), "floor((s0+1)/2)^2-s0");
  EXPECT_EQ((half * half - n).evaluate({{"s0", 9}}), 16);
  EXPECT_EQ(half.symbols(), (std::map<std::string, int64_t>{{"s0", 7}}));
  EXPECT_EQ(half.divided_by(2).floor().str(), "floor(floor((s0+1)/2)/2)");
  EXPECT_EQ(half.divided_by(2).floor().evaluate({{"s0", 12}}), 3);
  EXPECT_EQ((n - SizeExpr(9)).divided_by(4).floor().evaluate({{"s0", 8}}), -1) << "down, and not towards zero";
  EXPECT_TRUE(half.has_floors());
  EXPECT_FALSE((half - half).has_floors());
  EXPECT_EQ(n.floor(), n);
  EXPECT_EQ(SizeExpr(7).divided_by(2).floor(), SizeExpr(3));
}

TEST(SizeExpr, ReadsWhatItPrints) {
  const std::map<std::string, int64_t> hints{{"s0", 7}, {"s1", 5}};
  for (const char* text : {"floor(s0/2)", "3*floor((s0+1)/2)*s1-4", "(s0^2+floor(s1/3))/2", "floor(floor(s0/2)/3)^2"}) {
    const SizeExpr size = SizeExpr::parse(text, hints);
    EXPECT_EQ(size.str(), text);
    EXPECT_EQ(SizeExpr::parse(size.str(), hints), size);
  }
  EXPECT_THROW(SizeExpr::parse("floor(s0/2", hints), UserError);
}

// Values of `number` at points that a search would choose.
template <class Number, class Fit>
auto fitted(const Number& number, const Fit& fit) {
  std::vector<SymbolValues> points{{12, 9}, {2, 30}, {7, 4}, {25, 11}, {40, 2}, {3, 17}, {31, 23}, {19, 6}};
  for (int64_t step = 1; step <= 8; ++step) {
    points.push_back({12 + step, 9});
    points.push_back({12, 9 + step});
  }
  std::vector<decltype(number(0, 0))> values;
  for (const auto& point : points) values.push_back(number(point[0], point[1]));
  SizeFitter fitter(points, 2);
  return fit(fitter, values);
}

template <class Number>
std::string fitted_size(const Number& number) {
  const auto found =
      fitted(number, [](SizeFitter& fitter, const std::vector<int64_t>& values) { return fitter.fit(values); });
  return found ? found->str() : "none";
}

TEST(SizeFitter, QuotientsThatAreRounded) {
  EXPECT_EQ(fitted_size([](int64_t n, int64_t) { return n / 2; }), "floor(s0/2)");
  EXPECT_EQ(fitted_size([](int64_t, int64_t m) { return (m + 1) / 4; }), "floor((s1+1)/4)");
  EXPECT_EQ(fitted_size([](int64_t n, int64_t m) { return n * m / 3; }), "floor(s0*s1/3)");
  EXPECT_EQ(fitted_size([](int64_t n, int64_t) { return 3 * n / 2; }), "floor(3*s0/2)");
  EXPECT_EQ(fitted_size([](int64_t n, int64_t) { return n * n; }), "s0^2") << "what is a polynomial stays one";
  EXPECT_EQ(fitted_size([](int64_t n, int64_t) { return n % 2 == 0 ? n : 3 * n + 1; }), "none");
}

TEST(SizeFitter, ProductsOfQuotientsThatItHasFound) {
  const auto second = [](const auto& number) {
    return fitted([&](int64_t n, int64_t m) { return std::pair((n + 1) / 2, number(n, m, (n + 1) / 2)); },
                  [](SizeFitter& fitter, const auto& pairs) {
                    std::vector<int64_t> halves, values;
                    for (const auto& [half, value] : pairs) {
                      halves.push_back(half);
                      values.push_back(value);
                    }
                    fitter.fit(halves);
                    const auto found = fitter.fit(values);
                    return found ? found->str() : "none";
                  });
  };
  EXPECT_EQ(second([](int64_t, int64_t m, int64_t half) { return 16 * m * half; }), "16*floor((s0+1)/2)*s1");
  EXPECT_EQ(second([](int64_t, int64_t, int64_t half) { return half * half - 2; }), "floor((s0+1)/2)^2-2");
  EXPECT_EQ(second([](int64_t n, int64_t, int64_t half) { return n - half; }), "floor(s0/2)");
}

TEST(SizeFitter, FunctionsOfQuotients) {
  const auto text = [](const auto& number) {
    const auto found =
        fitted([&](int64_t n, int64_t m) { return number(static_cast<double>(n), static_cast<double>(m)); },
               [](SizeFitter& fitter, const auto& values) { return fitter.fit_number(values); });
    return found ? found->str() : "none";
  };
  EXPECT_EQ(text([](double n, double) { return 1 / n; }), "quotient(1, s0)");
  EXPECT_EQ(text([](double n, double m) { return 2 / (n * m - 1); }), "quotient(2, s0*s1-1)");
  EXPECT_EQ(text([](double n, double) { return n / 2; }), "quotient(s0, 2)");
  EXPECT_EQ(text([](double n, double) { return (n - 1) / n; }), "quotient(s0-1, s0)");
  EXPECT_EQ(text([](double, double m) { return std::sqrt(m); }), "root(s1, 1)");
  EXPECT_EQ(text([](double n, double) { return 1 / std::sqrt(n); }), "inverse_root(s0, 1)");
  EXPECT_EQ(text([](double n, double) { return std::log(n); }), "logarithm(s0, 1)");
  EXPECT_EQ(text([](double n, double) { return std::sin(n); }), "none");
  EXPECT_EQ(text([](double n, double) { return n > 20 ? std::nan("") : 1 / n; }), "none");
}

}  // namespace
}  // namespace diptych
