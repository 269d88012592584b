// aot_function and captured backwards with sizes that change: how often they capture, and that they do as eager does.
#include <gtest/gtest.h>
#include <torch/autograd.h>
#include <torch/types.h>

#include <cmath>
#include <functional>

#include "compile/dynamic_check.h"
#include "models/gpt.h"

namespace diptych::testing {

using namespace detail;
namespace {

TEST(DynamicSizes, TwoCapturesForAnyNumberOfBatchSizes) {
  const auto counted = compare(
      [](const Tensors& in) -> Tensors {
        return {at::tanh(at::matmul(in[0], in[1])), in[0].mean(0)};
      },
      {{{4, 3}, {3, 5}}, {{6, 3}, {3, 5}}, {{7, 3}, {3, 5}}, {{2, 3}, {3, 5}}, {{20, 3}, {3, 5}}});
  EXPECT_LE(counted.worst, 1e-12);
  EXPECT_EQ(counted.stats.misses, 2U);
  EXPECT_EQ(counted.stats.hits, 3U);
}

TEST(DynamicSizes, SizesThatNoResidualHas) {
  const auto counted =
      compare([](const Tensors& in) -> Tensors { return {in[0].sum()}; }, {{{4, 3}}, {{6, 3}}, {{9, 3}}, {{5, 3}}});
  EXPECT_EQ(counted.worst, 0);
  EXPECT_EQ(counted.stats.misses, 2U);
}

TEST(DynamicSizes, TwoSizesThatChangeApart) {
  const auto f = [](const Tensors& in) -> Tensors { return {at::cat({in[0], in[1]}, 0).cumsum(1).t()}; };
  const auto counted = compare(f, {{{4, 6}, {5, 6}}, {{7, 10}, {11, 10}}, {{3, 8}, {2, 8}}, {{16, 20}, {9, 20}}});
  EXPECT_LE(counted.worst, 1e-12);
  EXPECT_EQ(counted.stats.misses, 2U);
}

TEST(DynamicSizes, ZeroAndOneAreCasesOfTheirOwn) {
  const auto f = [](const Tensors& in) -> Tensors { return {in[0] * 2 + in[1]}; };
  const auto counted =
      compare(f, {{{4, 3}, {3}}, {{1, 3}, {3}}, {{0, 3}, {3}}, {{6, 3}, {3}}, {{1, 3}, {3}}, {{9, 3}, {3}}});
  EXPECT_LE(counted.worst, 1e-12);
  EXPECT_EQ(counted.stats.misses, 4U);
  EXPECT_EQ(counted.stats.hits, 2U);
}

TEST(DynamicSizes, HalvesAreRounded) {
  const auto f = [](const Tensors& in) -> Tensors { return {in[0].chunk(2)[0]}; };
  const auto counted = compare(f, {{{4}}, {{6}}, {{7}}, {{9}}, {{24}}, {{31}}});
  EXPECT_LE(counted.worst, 1e-12);
  EXPECT_EQ(counted.stats.misses, 2U);
}

TEST(DynamicSizes, NumbersThatComeFromSizes) {
  const std::vector<std::pair<const char*, std::function<Tensors(const Tensors&)>>> functions{
      {"n", [](const Tensors& in) -> Tensors { return {in[0] * in[0].size(0)}; }},
      {"1/n",
       [](const Tensors& in) -> Tensors {
         return {in[0].sum(0) / in[0].size(0), in[0].mean(0)};
       }},
      {"double",
       [](const Tensors& in) -> Tensors {
         const auto n = static_cast<double>(in[0].size(0));
         return {in[0] * (1 / n), in[0] / std::sqrt(n), in[0] * (n - 1) / n, in[0] + std::log(n)};
       }},
      {"var",
       [](const Tensors& in) -> Tensors {
         return {in[0].var(0), in[0].std()};
       }},
      {"alpha", [](const Tensors& in) -> Tensors { return {at::add(in[0], in[0].sin(), in[0].size(0))}; }},
      {"power",
       [](const Tensors& in) -> Tensors {
         return {in[0].detach().abs().pow(1.0 / in[0].size(0)), in[0].clamp(-in[0].size(0))};
       }},
      {"arange",
       [](const Tensors& in) -> Tensors { return {in[0] * at::arange(in[0].size(0), in[0].options()).unsqueeze(1)}; }},
      {"full", [](const Tensors& in) -> Tensors { return {in[0] + at::full_like(in[0], in[0].size(0) / 2)}; }},
  };
  for (const auto& [name, function] : functions) {
    const auto counted = compare(function, lengths(3, 24));
    EXPECT_LE(counted.worst, 1e-12) << name;
    EXPECT_LE(counted.stats.misses, 3U) << name;
  }
}

TEST(DynamicSizes, PoolsAndStridesOfAnyLength) {
  const at::Tensor w = torch::randn({5, 3, 3}, torch::kFloat64), v = torch::randn({4, 5, 3}, torch::kFloat64);
  const auto f = [&](const Tensors& in) -> Tensors {
    const at::Tensor x = at::max_pool1d(at::conv1d(in[0], w, {}, /*stride=*/1, /*padding=*/1), 2);
    return {at::relu(at::conv1d(x, v, {}, /*stride=*/2)).flatten(1).sum(1), x.mean()};
  };
  std::vector<std::vector<std::vector<int64_t>>> calls;
  for (int64_t n = 12; n < 42; ++n) calls.push_back({{2, 3, n}});
  const auto counted = compare(f, calls);
  EXPECT_LE(counted.worst, 1e-12);
  EXPECT_LE(counted.stats.misses, 3U);
}

TEST(DynamicSizes, LoopsOverAnyNumberOfSteps) {
  const auto f = [](const Tensors& in) -> Tensors {
    const auto step = [&](const at::Tensor& carry, const at::Tensor& x) {
      const at::Tensor next = at::tanh(at::matmul(carry, in[2]) + x);
      return std::make_pair(next, next * 2);
    };
    const auto [last, all] = scan(step, in[0], in[1]);
    return {last, all};
  };
  const auto unrolled = [](const Tensors& in) -> Tensors {
    at::Tensor carry = in[0];
    Tensors all;
    for (const at::Tensor& x : in[1].unbind(0)) {
      carry = at::tanh(at::matmul(carry, in[2]) + x);
      all.push_back(carry * 2);
    }
    return {carry, at::stack(all)};
  };
  const auto aot = aot_function(f, {.dynamic = true});
  for (const auto& [steps, batch] : std::vector<std::pair<int64_t, int64_t>>{{5, 4}, {5, 6}, {5, 9}, {8, 6}, {11, 3}}) {
    const Tensors inputs{torch::randn({batch, 3}, torch::kFloat64).requires_grad_(),
                         torch::randn({steps, batch, 3}, torch::kFloat64).requires_grad_(),
                         torch::randn({3, 3}, torch::kFloat64).requires_grad_()};
    const auto gradients = [&](const auto& g) {
      const Tensors outputs = g(inputs);
      return torch::autograd::grad({outputs[0].sum() + outputs[1].sin().sum()}, inputs);
    };
    const Tensors expected = gradients(unrolled), got = gradients(aot);
    EXPECT_TRUE(same_tensors(got, expected, kClose)) << steps << " " << batch;
  }
  EXPECT_LE(aot.stats().misses, 4U);
}

TEST(DynamicSizes, SecondOrder) {
  const auto f = [](const Tensors& in) -> Tensors { return {(in[0].matmul(in[1])).sin().sum()}; };
  const auto aot = aot_function(f, {.dynamic = true});
  for (const int64_t rows : {3, 5, 8, 4}) {
    const Tensors inputs{torch::randn({rows, 2}, torch::kFloat64).requires_grad_(),
                         torch::randn({2, 3}, torch::kFloat64).requires_grad_()};
    const auto second = [&](const auto& g) {
      const auto first = torch::autograd::grad({g(inputs)[0]}, inputs, {}, {}, /*create_graph=*/true);
      return torch::autograd::grad({first[0].square().sum() + first[1].square().sum()}, inputs);
    };
    const Tensors expected = second(f), got = second(aot);
    EXPECT_TRUE(same_tensors(got, expected, kClose)) << rows;
  }
  EXPECT_EQ(aot.stats().misses, 2U);
}

TEST(DynamicSizes, ResultsWithSizesAmongTheirConstantsStay) {
  const auto f = [](const at::Tensor& x) { return std::make_pair(x * 2, x.size(0)); };
  const auto aot = aot_function(f, {.dynamic = true});
  for (const int64_t rows : {3, 5, 8, 5}) {
    const auto [doubled, size] = aot(torch::ones({rows}));
    EXPECT_EQ(size, rows);
    EXPECT_EQ(doubled.size(0), rows);
  }
  EXPECT_EQ(aot.stats().misses, 3U);
}

TEST(DynamicSizes, MutationAndViewsOfInputs) {
  const auto f = [](const Tensors& in) -> Tensors {
    in[0].add_(1);
    return {in[0].mul(3), in[0].t()};
  };
  const auto aot = aot_function(f, {.dynamic = true});
  for (const int64_t rows : {3, 5, 8, 4}) {
    const at::Tensor x = torch::ones({rows, 2}), y = x.clone();
    const Tensors expected = f({x}), got = aot(Tensors{y});
    EXPECT_TRUE(at::equal(x, y));
    EXPECT_TRUE(same_tensors(got, expected)) << rows;
    EXPECT_TRUE(got[1].is_alias_of(y));
  }
}

// Eager's nodes of a sum have saved nothing, so that another backward may follow one that did not retain the graph.
TEST(DynamicSizes, ABackwardAfterOneThatHadNothingToFree) {
  const auto aot = aot_function([](const Tensors& in) { return Tensors{in[0] + in[1]}; }, {.dynamic = true});
  const auto aot_product = aot_function([](const Tensors& in) { return Tensors{in[0] * in[1]}; }, {.dynamic = true});
  for (const int64_t rows : {3, 5, 8}) {
    const at::Tensor x = torch::ones({rows, 2}).requires_grad_(), y = torch::ones({rows, 1}).requires_grad_();
    const at::Tensor sum = aot(Tensors{x, y})[0].sum(), product = aot_product(Tensors{x, y})[0].sum();
    sum.backward();
    sum.backward();
    EXPECT_TRUE(at::equal(y.grad(), torch::full({rows, 1}, 4.0))) << rows;
    product.backward();
    EXPECT_THROW(product.backward(), std::exception);
  }
}

TEST(DynamicSizes, TheGptWithAnyBatchAndLength) {
  torch::manual_seed(1);
  const auto gpt = examples::make_gpt({.vocabulary = 32, .block = 48, .layers = 2, .width = 16, .heads = 2});
  const auto aot = aot_function(examples::gpt_loss, {.dynamic = true});
  const Tensors parameters{gpt.tokens, gpt.positions, gpt.blocks[0].mlp_in.weight,
                           gpt.blocks[1].query_key_value.weight};
  const auto check = [&](int64_t batch, int64_t length) {
    const at::Tensor tokens = torch::randint(32, {batch, length}), targets = torch::randint(32, {batch, length});
    const auto expected = torch::autograd::grad({examples::gpt_loss(gpt, tokens, targets)}, parameters);
    const auto got = torch::autograd::grad({aot(gpt, tokens, targets)}, parameters);
    EXPECT_TRUE(same_tensors(got, expected, {.rtol = 1e-4, .atol = 1e-6})) << batch << "x" << length;
  };
  for (const int64_t batch : {4, 6, 5, 8, 3, 2, 7, 12, 16, 20}) check(batch, 9);
  EXPECT_EQ(aot.stats().misses, 2U) << "ten batch sizes";
  for (const int64_t length : {12, 16, 24, 47, 7, 11, 40}) check(6, length);
  EXPECT_EQ(aot.stats().misses, 3U) << "and any length below the GPT's, by one capture more";
  check(6, 48);
  EXPECT_EQ(aot.stats().misses, 3U) << "its own length takes a slice of all positions";
}

TEST(DynamicSizes, ShorterThanTheLongest) {
  torch::manual_seed(1);
  const auto gpt = examples::make_gpt({.vocabulary = 32, .block = 48, .layers = 1, .width = 16, .heads = 2});
  const auto aot = aot_function(examples::gpt_loss, {.dynamic = true});
  for (const int64_t length : {48, 24, 12, 40, 48, 47}) {
    const at::Tensor tokens = torch::randint(32, {3, length}), targets = torch::randint(32, {3, length});
    EXPECT_TRUE(at::allclose(examples::gpt_loss(gpt, tokens, targets), aot(gpt, tokens, targets))) << length;
  }
  EXPECT_EQ(aot.stats().misses, 2U);
}

TEST(DynamicSizes, CapturedBackwardsOfTenBatchSizes) {
  torch::manual_seed(1);
  const at::Tensor w = torch::randn({3, 5}).requires_grad_(), b = torch::randn({5}).requires_grad_();
  backward_capture::reset();
  const BackwardCapture guard;
  for (const int64_t batch : {4, 6, 5, 8, 3, 2, 7, 12, 16, 20}) {
    const at::Tensor x = torch::randn({batch, 3});
    const auto loss = [&] { return at::tanh(at::addmm(b, x, w)).square().mean(); };
    const auto got = torch::autograd::grad({loss()}, {w, b});
    at::Tensor y = at::tanh(at::addmm(b, x, w)).detach();
    const at::Tensor inner = 2 * y * (1 - y * y) / static_cast<double>(y.numel());
    EXPECT_TRUE(at::allclose(got[0], x.t().matmul(inner), 1e-4, 1e-6)) << batch;
    EXPECT_TRUE(at::allclose(got[1], inner.sum(0), 1e-4, 1e-6)) << batch;
  }
  const auto statistics = backward_capture::statistics();
  EXPECT_EQ(statistics.captures, 2U);
  EXPECT_EQ(statistics.hits, 8U);
  EXPECT_NE(statistics.misses[1].find("changed 20 -> 30: now dynamic"), std::string::npos) << statistics.misses[1];
}

}  // namespace
}  // namespace diptych::testing
