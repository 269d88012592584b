// Functions that ask for values on the host: captured for the answers, and asked again by each call.
#include <ATen/CPUGeneratorImpl.h>

#include <limits>

#include "testing/eager_check.h"

namespace diptych::testing {
namespace {

void expect_close(const at::Tensor& got, const at::Tensor& expected) {
  EXPECT_TRUE(got.sizes() == expected.sizes() && at::allclose(got, expected, 1e-12, 1e-12, /*equal_nan=*/true))
      << got << "\nexpected\n"
      << expected;
}

// Calls `function` in eager and compiled on copies of the same arguments, from the same seed, and compares results,
// gradients, what the arguments are afterwards, and where the generator stands.
template <class F>
void expect_call_as_eager(const F& function, const Aot<F>& compiled, const at::Tensor& given_x,
                          const at::Tensor& given_n) {
  struct Run {
    at::Tensor x, n, result, gradient, generator;
  };
  const auto run = [&](const auto& call) {
    torch::manual_seed(7);
    Run found{given_x.clone().requires_grad_(), given_n.clone(), {}, {}, {}};
    found.result = call(found.x, found.n);
    found.generator = at::detail::getDefaultCPUGenerator().get_state();
    found.result.square().sum().backward();
    found.gradient = found.x.grad();
    return found;
  };
  const Run eager = run(function), ours = run(compiled);
  expect_close(ours.result, eager.result);
  expect_close(ours.gradient, eager.gradient);
  EXPECT_TRUE(at::equal(ours.n, eager.n));
  EXPECT_TRUE(at::equal(ours.generator, eager.generator));
}

at::Tensor positive() { return torch::tensor({1.0, 2.0, 3.0}, at::kDouble); }
at::Tensor number(double value) { return torch::full({}, value, at::kDouble); }

TEST(ValuePaths, BranchesAreCapturedAsTheyAreMet) {
  const auto f = [](const at::Tensor& x, const at::Tensor& n) {
    return n.item<double>() > 0 ? (x * n).sin() : x.exp();
  };
  const auto compiled = aot_function(f);
  for (const double value : {2.0, -1.0, 2.0, -1.0, 2.0}) expect_call_as_eager(f, compiled, positive(), number(value));
  EXPECT_EQ(compiled.stats().entries, 2U);
  EXPECT_EQ(compiled.stats().misses, 2U);
  EXPECT_EQ(compiled.stats().hits, 3U);
  EXPECT_NE(compiled.stats().last_miss.find("asks for is -1, was 2"), std::string::npos) << compiled.stats().last_miss;
}

TEST(ValuePaths, AQuestionThatDependsOnAnEarlierAnswer) {
  const auto f = [](const at::Tensor& x, const at::Tensor& n) {
    if ((n > 0).item<bool>()) return x * n;
    const auto y = x.index({(x > -n).nonzero().select(1, 0)});
    return (y.sum() > 3).item<bool>() ? y.sin() : y.cos();
  };
  const auto compiled = aot_function(f);
  for (const double value : {1.0, -1.0, -2.5, -0.5, 1.0, -1.0, -2.5, -2.9}) {
    expect_call_as_eager(f, compiled, positive(), number(value));
  }
  EXPECT_EQ(compiled.stats().entries, 4U);  // positive; 2, 1 and 3 elements
  EXPECT_EQ(compiled.stats().hits, 4U);
}

TEST(ValuePaths, WhatIsWrittenAndDrawnBeforeAQuestionHappensOnce) {
  const auto f = [](const at::Tensor& x, const at::Tensor& n) {
    n.add_(1);
    const auto unused = torch::rand({3});
    const auto mask = torch::rand_like(x) > 0.5;
    const auto kept = x * mask;
    if (kept.detach().sum().item<double>() > 2) n.mul_(3);
    return kept * n * torch::rand_like(x);
  };
  const auto compiled = aot_function(f);
  for (int call = 0; call < 3; ++call) {
    expect_call_as_eager(f, compiled, positive(), number(call));
    expect_call_as_eager(f, compiled, positive() * 0.1, number(call));
  }
}

TEST(ValuePaths, MasksAndCountsGiveSizes) {
  const auto f = [](const at::Tensor& x, const at::Tensor& n) {
    return torch::cat({x.index({x > n}), x.masked_select(x <= n) * 2, x.nonzero().squeeze(1) * x.sum()});
  };
  const auto compiled = aot_function(f);
  for (const double value : {1.5, 2.5, 1.5, 0.0}) expect_call_as_eager(f, compiled, positive(), number(value));
  EXPECT_EQ(compiled.stats().entries, 3U);
}

TEST(ValuePaths, ACapturedTensorIsAskedAtEachCall) {
  const at::Tensor threshold = number(1);
  const auto f = [threshold](const at::Tensor& x, const at::Tensor& n) {
    return threshold.item<double>() > 0 ? x * threshold : x - n;
  };
  const auto compiled = aot_function(f);
  expect_call_as_eager(f, compiled, positive(), number(1));
  threshold.fill_(-1);
  expect_call_as_eager(f, compiled, positive(), number(1));
  threshold.fill_(1);
  expect_call_as_eager(f, compiled, positive(), number(1));
  EXPECT_EQ(compiled.stats().entries, 2U);
}

TEST(ValuePaths, ANegativeZeroAndNanAreValuesOfTheirOwn) {
  const auto f = [](const at::Tensor& x, const at::Tensor& n) { return x / n.item<double>(); };
  const auto compiled = aot_function(f);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const double value : {0.0, -0.0, nan, nan, -0.0}) {
    const at::Tensor x = positive(), n = number(value);
    EXPECT_TRUE(at::allclose(compiled(x, n), f(x, n), 0, 0, /*equal_nan=*/true));
  }
  EXPECT_EQ(compiled.stats().entries, 3U);
}

TEST(ValuePaths, TheSameQuestionIsAskedOnce) {
  const auto f = [](const at::Tensor& x, const at::Tensor& n) {
    at::Tensor y = x;
    for (int layer = 0; layer < 5; ++layer) {
      if ((n == 1).all().item<bool>()) y = y * 2;
    }
    return y;
  };
  const auto compiled = aot_function(f);
  expect_call_as_eager(f, compiled, positive(), number(1));
  EXPECT_EQ(compiled.captures()[0]->captured().questions().size(), 1U);
}

TEST(ValuePaths, WhatNoArgumentChangesIsNoQuestion) {
  const auto f = [](const at::Tensor& x, const at::Tensor&) {
    return torch::arange(4, at::kDouble).sum().item<double>() > 5 ? x * 2 : x;
  };
  const auto compiled = aot_function(f);
  expect_call_as_eager(f, compiled, positive(), number(1));
  EXPECT_TRUE(compiled.captures()[0]->captured().questions().empty());
}

TEST(ValuePaths, BeyondTheLimitTheFunctionItselfRuns) {
  const auto f = [](const at::Tensor& x, const at::Tensor& n) { return x * n.item<double>(); };
  const auto compiled = aot_function(f, {.path_limit = 3});
  for (int call = 0; call < 7; ++call) expect_call_as_eager(f, compiled, positive(), number(call));
  EXPECT_GE(compiled.stats().originals, 3U);
  EXPECT_NE(compiled.stats().last_original.find("more than 3 paths"), std::string::npos);
}

TEST(ValuePaths, ABackwardCannotAsk) {
  struct Asks : torch::autograd::Function<Asks> {
    static at::Tensor forward(torch::autograd::AutogradContext*, const at::Tensor& x) { return x * 2; }
    static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                   const torch::autograd::variable_list& grads) {
      return {grads[0].sum().item<double>() > 0 ? grads[0] * 2 : grads[0]};
    }
  };
  const auto compiled = aot_function([](const at::Tensor& x) { return Asks::apply(x); });
  const at::Tensor x = positive().requires_grad_();
  EXPECT_THROW(compiled(x).sum().backward(), UserError);
}

TEST(ValuePaths, ATensorThatIsGivenForTheResultIsRefused) {
  const auto compiled = aot_function([](const at::Tensor& x) {
    at::Tensor result = torch::zeros({1}, at::kDouble);
    at::masked_select_out(result, x, x > 1);
    return result * 2;
  });
  EXPECT_THROW(compiled(positive()), UserError);
}

TEST(ValuePaths, SizesStayStaticWhereValuesAreAskedFor) {
  const auto f = [](const at::Tensor& x, const at::Tensor& n) { return n.item<double>() > 0 ? x.sin() : x.cos(); };
  const auto compiled = aot_function(f, {.dynamic = true});
  for (const int64_t size : {4, 6, 9, 4}) {
    for (const double value : {1.0, -1.0})
      expect_call_as_eager(f, compiled, torch::rand({size}, at::kDouble), number(value));
  }
}

TEST(ValuePaths, GradientsOfTheSecondOrder) {
  const auto f = [](const at::Tensor& x, const at::Tensor& n) {
    return n.item<double>() > 0 ? (x.index({x > 1}) * n).sin().sum() : x.exp().sum();
  };
  const auto compiled = aot_function(f);
  for (const double value : {2.0, -1.0, 2.0}) {
    const auto second = [&](const auto& call) {
      const at::Tensor x = positive().requires_grad_();
      const auto first = torch::autograd::grad({call(x, number(value))}, {x}, {}, std::nullopt, true)[0];
      return torch::autograd::grad({first.square().sum()}, {x})[0];
    };
    expect_close(second(compiled), second(f));
  }
}

}  // namespace
}  // namespace diptych::testing
