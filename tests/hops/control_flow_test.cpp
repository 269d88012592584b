#include "hops/unrolled.h"

namespace diptych::testing {
namespace {

Tensors branch(const Tensors& t) {
  return {cond(
      t[0].sum() > 0.5, [&](const at::Tensor& x) { return x * t[1]; },
      [&](const at::Tensor& x) { return (x.sin() * t[2]).exp(); }, t[0])};
}

TEST(Cond, GradientsAreRightToTheSecondOrder) {
  for (const double shift : {0.0, 2.0}) {
    expect_gradients_right({leaf64({3}, shift), leaf64({3}, 0.3), leaf64({3}, 0.7)}, branch);
  }
}

TEST(Cond, ABackwardThatMakesZerosIsDifferentiatedAgain) {
  // The second derivative with respect to the untouched part is zeros, which could be folded into a constant.
  const auto scaled_rest = [](const Tensors& t) -> Tensors {
    return {cond(
        t[0].sum() < 1e9,
        [&](const at::Tensor& x) {
          const auto parts = x.split_with_sizes({1, 3});
          return at::cat({parts[0], parts[1] * t[1]});
        },
        [](const at::Tensor& x) { return x.sin(); }, t[0])};
  };
  expect_gradients_right({leaf64({4}), leaf64({3}, 0.3)}, scaled_rest);
  const Tensors t{leaf64({4}), leaf64({3}, 0.3)};
  const auto first = torch::autograd::grad({scaled_rest(t)[0].sum()}, t, {}, true, /*create_graph=*/true);
  const auto second = torch::autograd::grad({first[0].sum()}, {t[1]});
  EXPECT_TRUE(torch::equal(second[0], torch::ones({3}, torch::kFloat64)));
}

TEST(Cond, EagerAgreesWithTheBranch) {
  for (const double shift : {0.0, 2.0}) {
    const Tensors t{leaf64({3}, shift), leaf64({3}, 0.3), leaf64({3}, 0.7)};
    const bool chosen = (t[0].sum() > 0.5).item<bool>();
    const at::Tensor ours = branch(t)[0];
    const at::Tensor theirs = chosen ? t[0] * t[1] : (t[0].sin() * t[2]).exp();
    EXPECT_TRUE(torch::equal(ours, theirs));
    const auto g = torch::autograd::grad({ours.sum()}, t);
    EXPECT_EQ(g[chosen ? 2 : 1].abs().sum().item<double>(), 0.0);
  }
}

Tensors loop(const Tensors& t) {
  const auto last = while_loop([](const Tensors& c) { return c[1] < 4; },
                               [&](const Tensors& c) {
                                 return Tensors{torch::tanh(c[0] * t[1] + 0.1), c[1] + 1};
                               },
                               Tensors{t[0], torch::zeros({}, torch::kLong)});
  return {last[0]};
}

TEST(WhileLoop, RunsAsTheLoop) {
  const Tensors t{leaf64({3}), leaf64({3}, 0.3)};
  at::Tensor c = t[0];
  for (int i = 0; i < 4; ++i) c = torch::tanh(c * t[1] + 0.1);
  const at::Tensor ours = loop(t)[0];
  EXPECT_TRUE(torch::equal(ours, c));
  const auto a = torch::autograd::grad({ours.square().sum()}, t, {}, true, true);
  const auto b = torch::autograd::grad({c.square().sum()}, t, {}, true, true);
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(torch::allclose(a[i], b[i], 1e-12, 1e-12));
  const auto a2 = torch::autograd::grad({a[0].sum() + a[1].sum()}, t);
  const auto b2 = torch::autograd::grad({b[0].sum() + b[1].sum()}, t);
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(torch::allclose(a2[i], b2[i], 1e-12, 1e-12));
}

TEST(WhileLoop, GradientsAreRightToTheSecondOrder) { expect_gradients_right({leaf64({3}), leaf64({3}, 0.3)}, loop); }

// Where the carry requires no grad at first and the graph does not show what autograd sees.
TEST(WhileLoop, GradientsPastAChangeThatAutogradDoesNotSee) {
  const at::Tensor x = leaf64({3});
  const auto step = [&](const Tensors& c) {
    const at::Tensor h = c[0] + x;
    const torch::NoGradGuard guard;
    h.mul_(0.5);
    return Tensors{h, c[1] + 1};
  };
  const Tensors start{values({3}).to(torch::kFloat64), torch::zeros({}, torch::kLong)};
  const at::Tensor ours = while_loop([](const Tensors& c) { return c[1] < 3; }, step, start)[0];
  Tensors theirs = start;
  for (int i = 0; i < 3; ++i) theirs = step(theirs);
  EXPECT_TRUE(torch::equal(ours, theirs[0]));
  EXPECT_TRUE(
      torch::equal(torch::autograd::grad({ours.sum()}, {x})[0], torch::autograd::grad({theirs[0].sum()}, {x})[0]));
}

TEST(WhileLoop, CheckpointedGivesTheSameGradients) {
  const Tensors t{leaf64({3}), leaf64({3}, 0.3)};
  const auto gradients = [&](int64_t steps, const WhileOptions& options) {
    const auto last = while_loop([&](const Tensors& c) { return c[1] < steps; },
                                 [&](const Tensors& c) {
                                   return Tensors{torch::tanh(c[0] * t[1] + 0.1), c[1] + 1};
                                 },
                                 Tensors{t[0], torch::zeros({}, torch::kLong)}, options);
    return torch::autograd::grad({last[0].square().sum()}, t, {}, {}, false, /*allow_unused=*/true);
  };
  for (const int64_t steps : {0, 1, 3, 4, 9}) {
    for (const int64_t every : {1, 2, 4, 20}) {
      const auto ours = gradients(steps, {.checkpoint_every = every}), theirs = gradients(steps, {});
      EXPECT_TRUE(same_tensors(ours, theirs, within(1e-13))) << steps << " " << every;
    }
  }
  expect_error<UserError>([&] { gradients(2, {.checkpoint_every = 0}); }, "options.checkpoint_every is 0");
}

TEST(Map, IsTheFunctionOnEachSlice) {
  const at::Tensor x = leaf64({4, 3}), w = leaf64({3}, 0.4);
  const at::Tensor ours = map([&](const at::Tensor& row) { return (row * w).sum(); }, x);
  EXPECT_TRUE(torch::allclose(ours, (x * w).sum(1)));
  expect_gradients_right({x, w}, [](const Tensors& t) -> Tensors {
    return {map([&](const at::Tensor& row) { return (row * t[1]).sum().sin(); }, t[0])};
  });
}

// Each captured tensor is written back as its own change was made: autograd sees that of `seen` alone.
TEST(Cond, ChangesOneTensorWithAHistoryAndOneUnseen) {
  const at::Tensor leaf = torch::ones({2}, torch::requires_grad()), seen = leaf * 1;
  const auto branch = [&](const at::Tensor& x) {
    leaf.detach().mul_(2);
    seen.add_(3);
    return x * seen;
  };
  cond(torch::tensor(true), branch, branch, torch::full({2}, 5.0)).sum().backward();
  EXPECT_TRUE(at::equal(leaf, torch::full({2}, 2.0)) && at::equal(seen, torch::full({2}, 4.0)));
  EXPECT_TRUE(at::equal(leaf.grad(), torch::full({2}, 5.0)));
}

// Each step doubles the stride of what has no elements.
TEST(Scan, CarriesWhatHasNoElements) {
  const auto body = [](const at::Tensor& c, const Tensors&) {
    return std::pair(c.slice(0, 0, std::nullopt, 2), c * 2);
  };
  EXPECT_EQ(scan(body, torch::ones({0}, torch::requires_grad()), Tensors{}, {.length = 70}).first.numel(), 0);
}

// What is overwritten has a gradient, which is zero.
TEST(Scan, OverwrittenCarryRequiresGrad) {
  const at::Tensor other = torch::ones({2}), leaf = torch::ones({2}, torch::requires_grad());
  const auto body = [](const Tensors& c, const Tensors&) {
    const at::Tensor overwritten = c[1].clone().copy_(c[0]);
    return std::pair(Tensors{overwritten, overwritten.clone()}, Tensors{});
  };
  const Tensors last = scan(body, Tensors{other, leaf}, Tensors{}, {.length = 2}).first;
  EXPECT_TRUE(last[0].requires_grad() && last[1].requires_grad());
  last[0].sum().backward();
  EXPECT_TRUE(!leaf.grad().defined() || at::equal(leaf.grad(), torch::zeros({2})));
}

TEST(Scan, ZeroesComplexNumbersAtSecondOrder) {
  const at::Tensor x = torch::rand({2, 3, 3}, torch::kComplexDouble).set_requires_grad(true);
  const auto zeroed = [](const at::Tensor& slice) {
    const at::Tensor y = slice * slice;
    y.diagonal().zero_();
    return y;
  };
  const auto second = [&](const at::Tensor& y) {
    const at::Tensor first = torch::autograd::grad({at::real(y * y).sum()}, {x}, {}, true, /*create_graph=*/true)[0];
    return torch::autograd::grad({at::real(first * first).sum()}, {x})[0];
  };
  EXPECT_TRUE(at::allclose(second(map(zeroed, x)), second(at::stack({zeroed(x[0]), zeroed(x[1])}))));
}

TEST(Scan, ReturnsAViewOfWhatItChangesUnderNoGrad) {
  const at::Tensor weight = torch::ones({1, 3}, torch::requires_grad());
  const torch::NoGradGuard guard;
  const auto body = [&](const at::Tensor& c, const Tensors&) {
    const at::Tensor view = weight.slice(0, 0, 1);
    view.copy_(c + 4);
    return std::pair(c + 1, view);
  };
  const at::Tensor seen = scan(body, torch::ones({1, 3}), Tensors{}, {.length = 2}).second;
  EXPECT_TRUE(at::equal(seen, torch::tensor({5.0, 6.0}).view({2, 1, 1}).expand({2, 1, 3})));
  EXPECT_TRUE(at::equal(weight, seen[1]));
}

}  // namespace
}  // namespace diptych::testing
