// Functions that branch on sizes that change: which sizes one capture serves, and what is traced again.
#include <random>

#include "compile/dynamic_check.h"
#include "testing/rotation.h"

namespace diptych::testing {
namespace {

TEST(DynamicBranches, BranchesOnASizeAreSeenAtTheEndsOfTheRange) {
  const auto f = [](const Tensors& in) -> Tensors { return {in[0].size(0) > 10 ? in[0].sin() : in[0].cos()}; };
  const auto counted = compare(f, {{{4}}, {{6}}, {{10}}, {{11}}, {{7}}, {{30}}});
  EXPECT_LE(counted.worst, 1e-12);
  EXPECT_EQ(counted.stats.misses, 3U) << "one for sizes up to 10, and one for those beyond";
}

TEST(DynamicBranches, BranchesThatTheFirstSizesDoNotShow) {
  const auto thirds = [](const Tensors& in) -> Tensors { return {in[0].size(0) % 3 != 0 ? in[0] * 3 : in[0].sin()}; };
  auto counted = compare(thirds, {{{4}}, {{8}}, {{16}}, {{9}}, {{10}}, {{12}}, {{33}}, {{1024}}, {{1023}}, {{999}}});
  EXPECT_LE(counted.worst, 1e-15) << "sines by kernels round otherwise";
  EXPECT_LE(counted.stats.misses, 3U);
  const auto between = [](const Tensors& in) -> Tensors {
    const int64_t n = in[0].size(0);
    return {10 < n && n < 14 ? in[0] * 2 : in[0] * 3};
  };
  counted = compare(between, lengths(4, 30));
  EXPECT_EQ(counted.worst, 0);
  EXPECT_LE(counted.stats.misses, 5U) << "11, 12 and 13 are too few sizes for a capture of many";
}

TEST(DynamicBranches, EachSizeIsTracedOnceBeforeItIsServed) {
  size_t calls = 0;
  const auto f = [&calls](const Tensors& in) -> Tensors {
    ++calls;
    return {in[0] * 2};
  };
  const auto aot = aot_function(f, {.dynamic = true});
  for (const int64_t n : {4, 6}) aot(Tensors{torch::ones({n})});
  const size_t before = calls;
  const CacheStats stats = aot.stats();
  for (const int64_t n : {100, 101, 100, 101, 100}) EXPECT_EQ(aot(Tensors{torch::ones({n})})[0].size(0), n);
  EXPECT_EQ(calls, before + 2);
  EXPECT_EQ(aot.stats().size_checks, stats.size_checks + 2);
  EXPECT_EQ(aot.stats().misses, 2U);
}

TEST(DynamicBranches, WithoutChecksARangeIsTrusted) {
  const auto f = [](const Tensors& in) -> Tensors { return {in[0].size(0) == 21 ? in[0] * 2 : in[0] * 3}; };
  const auto aot = aot_function(f, {.dynamic = true, .check_sizes = false});
  const auto value = [&](int64_t n) { return aot(Tensors{torch::ones({n})})[0][0].item<float>(); };
  for (const int64_t n : {4, 8, 30}) EXPECT_EQ(value(n), 3);
  EXPECT_EQ(aot.stats().size_checks, 0U);
  EXPECT_EQ(value(21), 3) << "the price that docs/concepts.md names";
  const auto checked = aot_function(f, {.dynamic = true});
  for (const int64_t n : {4, 8, 30}) checked(Tensors{torch::ones({n})});
  EXPECT_EQ(checked(Tensors{torch::ones({21})})[0][0].item<float>(), 2);
}

TEST(DynamicBranches, WithoutChecksLikelyBranchesAreSeen) {
  for (const int64_t special : {2, 3, 7, 8, 9, 15, 16, 17, 13, 31, 32, 33}) {
    const auto f = [special](const Tensors& in) -> Tensors {
      return {in[0].size(0) == special ? in[0] * 2 : in[0] * 3};
    };
    const auto aot = aot_function(f, {.dynamic = true, .check_sizes = false});
    for (const int64_t n : std::vector<int64_t>{4, 10, 12, special, special + 1}) {
      EXPECT_EQ(aot(Tensors{torch::ones({n})})[0][0].item<float>(), n == special ? 2 : 3) << special << " at " << n;
    }
  }
}

/// A program that branches on its input's sizes, made from a seed.
class BranchingProgram {
 public:
  explicit BranchingProgram(uint64_t seed) : seed_(seed) {}

  Tensors operator()(const Tensors& in) const {
    std::mt19937_64 random(seed_);
    const auto below = [&](int64_t end) { return static_cast<int64_t>(random() % static_cast<uint64_t>(end)); };
    at::Tensor x = in[0];
    for (int i = 0; i < 4; ++i) {
      const int64_t condition = below(8), a = below(20) + 2, b = below(6) + 2, yes = below(10), no = below(10);
      x = changed(x, holds(x.size(0), x.size(1), condition, a, b) ? yes : no, b);
    }
    return {x};
  }

 private:
  static bool holds(int64_t n, int64_t m, int64_t condition, int64_t a, int64_t b) {
    switch (condition) {
      case 0:
        return n > a;
      case 1:
        return n % b == 0;
      case 2:
        return n == a;
      case 3:
        return a <= n && n < a + b;
      case 4:
        return n * m > a * b;
      case 5:
        return n > m;
      case 6:
        return (n & (n - 1)) == 0;
      default:
        return n / b % 2 == 0;
    }
  }
  static at::Tensor changed(const at::Tensor& x, int64_t operation, int64_t b) {
    const int64_t n = x.size(0);
    switch (operation) {
      case 0:
        return x.sin();
      case 1:
        return x * n;
      case 2:
        return x / (1.0 + static_cast<double>(n));
      case 3:
        return x.narrow(0, n / b, n - n / b);
      case 4:
        return at::cat({x, x.narrow(0, 0, (n + 1) / 2)});
      case 5:
        return x - x.mean(0, true);
      case 6:
        return x.reshape({-1}).reshape({n, -1}) + n % b;
      case 7:
        return x * static_cast<double>(n % 5);
      case 8:
        return x.slice(0, 0, INT64_MAX, 1 + (n > 7 ? 1 : 0));
      default:
        return x + b;
    }
  }
  uint64_t seed_;
};

TEST(DynamicBranches, ProgramsThatBranchOnTheirSizes) {
  std::mt19937_64 random(11);
  for (uint64_t seed = 0; seed < 60; ++seed) {
    std::vector<std::vector<std::vector<int64_t>>> calls;
    for (int i = 0; i < 25; ++i) {
      calls.push_back(
          {{static_cast<int64_t>(random() % 40 + 1), static_cast<int64_t>(seed % 3 == 0 ? random() % 9 + 2 : 4)}});
    }
    if (!takes_sample("program")) continue;
    const auto counted = compare(BranchingProgram(seed), calls);
    EXPECT_LE(counted.worst, 1e-6) << "seed " << seed;
  }
}

// Branches on a size in its own backward.
struct OddBackward : torch::autograd::Function<OddBackward> {
  static at::Tensor forward(torch::autograd::AutogradContext*, const at::Tensor& x) { return x.clone(); }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 const torch::autograd::variable_list& g) {
    return {g[0].size(0) % 3 == 0 ? g[0] * 2 : g[0].cos()};
  }
};

TEST(DynamicBranches, BranchesOfABackward) {
  const auto f = [](const Tensors& in) -> Tensors { return {OddBackward::apply(in[0]) * 2}; };
  const auto counted = compare(f, lengths(4, 20));
  EXPECT_LE(counted.worst, 1e-15);
  EXPECT_LE(counted.stats.misses, 4U);
}

TEST(DynamicBranches, BranchesOfACapturedBackward) {
  backward_capture::reset();
  const BackwardCapture guard;
  for (const int64_t n : {4, 8, 16, 9, 10, 12, 33, 64, 9, 99}) {
    const at::Tensor x = torch::randn({n}).requires_grad_();
    const auto got = torch::autograd::grad({OddBackward::apply(x).square().sum()}, {x})[0];
    const at::Tensor tangent = 2 * x.detach();
    EXPECT_TRUE(at::allclose(got, n % 3 == 0 ? tangent * 2 : tangent.cos())) << n;
  }
  const auto statistics = backward_capture::statistics();
  EXPECT_LE(statistics.captures, 4U);
  EXPECT_GE(statistics.size_checks, 2U);
}

TEST(DynamicBranches, AResultOfAnotherStructureInEachRunIsThatOfTheLastRun) {
  for (const size_t first : {0, 1}) {
    size_t runs = first;
    const auto f = [&runs](const Tensors& in) -> Tensors {
      return ++runs % 2 == 0 ? Tensors{in[0] * 2} : Tensors{in[0] * 2, in[0] * 3};
    };
    const auto aot = aot_function(f, {.dynamic = true, .check_constants = 0});
    for (const int64_t n : {4, 6, 8, 9}) {
      const Tensors got = aot(Tensors{torch::ones({n})});
      ASSERT_EQ(got.size(), 1 + runs % 2);
      for (size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(at::equal(got[i], torch::full({n}, 2.0 + double(i))));
    }
  }
}

}  // namespace
}  // namespace diptych::testing
