#include "hops/unrolled.h"

namespace diptych::testing {
namespace {

// log(1 + exp(x)) by its own, stable gradient.
auto softplus() {
  return custom_vjp([](const at::Tensor& x) { return torch::log1p(torch::exp(x)); },
                    [](const at::Tensor& x) {
                      const at::Tensor e = torch::exp(x);
                      return std::pair{torch::log1p(e), e};
                    },
                    [](const at::Tensor& e, const at::Tensor& g) { return std::tuple{g * (1 - 1 / (1 + e))}; });
}

// The identity forward, whose gradient is scaled: no operator's derivative is that.
auto scale_gradient(double factor) {
  return custom_vjp([](const at::Tensor& x) { return x * 1; },
                    [](const at::Tensor& x) {
                      return std::pair{x * 1, std::tuple<>()};
                    },
                    [factor](const std::tuple<>&, const at::Tensor& g) { return std::tuple{g * factor}; });
}

TEST(CustomVjp, GradientsAreRightToTheSecondOrder) {
  expect_gradients_right({leaf64({4})}, [](const Tensors& t) -> Tensors { return {softplus()(t[0])}; });
}

TEST(CustomVjp, TheUsersRuleIsUsedEverywhere) {
  const auto rule = scale_gradient(3);
  const at::Tensor x = leaf64({3});
  const at::Tensor w = leaf64({3}, 0.4);
  const auto gradient = [&](const at::Tensor& y) { return torch::autograd::grad({y.sum()}, {x})[0]; };
  EXPECT_TRUE(torch::equal(gradient(rule(x)), torch::full_like(x, 3)));
  EXPECT_TRUE(torch::equal(gradient(aot_function(rule)(x)), torch::full_like(x, 3)));
  const auto step = [&](const at::Tensor& h, const std::tuple<>&) {
    const at::Tensor next = rule(h) * w;
    return std::pair{next, std::tuple<>()};
  };
  const auto loop = [&](const at::Tensor& h) { return scan(step, h, std::tuple<>(), {.length = 2}).first; };
  EXPECT_TRUE(torch::allclose(gradient(loop(x)), 9 * w * w));
  EXPECT_TRUE(torch::allclose(gradient(aot_function(loop)(x)), 9 * w * w));
}

// d/dx of 3 x^2 (the gradient of rule(x)^2 is 3 * 2 * rule(x)) goes through the rule once more.
TEST(CustomVjp, TheSecondOrderGoesThroughTheRuleToo) {
  const auto square = [](const at::Tensor& x) { return scale_gradient(3)(x).square().sum(); };
  for (const bool compiled : {false, true}) {
    const at::Tensor x = leaf64({3});
    const at::Tensor y = compiled ? aot_function(square)(x) : square(x);
    const at::Tensor g = torch::autograd::grad({y}, {x}, {}, true, true)[0];
    EXPECT_TRUE(torch::allclose(g, 6 * x)) << compiled;
    EXPECT_TRUE(torch::allclose(torch::autograd::grad({g.sum()}, {x})[0], torch::full_like(x, 18))) << compiled;
  }
}

TEST(CustomVjp, RefusesByName) {
  const at::Tensor x = leaf64({3});
  const at::Tensor w = leaf64({3}, 1);
  const auto id = [](const at::Tensor& t) { return t * 1; };
  const auto keep = [](const at::Tensor& t) { return std::pair{t * 1, std::tuple<>()}; };
  const auto sized = custom_vjp(id, keep, [](const std::tuple<>&, const at::Tensor& g) { return std::tuple{g.sum()}; });
  expect_error<UserError>([&] { sized(x); }, "bwd returns f64[] as the gradient of 'arg0', expected f64[3]");
  const auto captures = custom_vjp(
      id,
      [&](const at::Tensor& t) {
        return std::pair{t * w, std::tuple<>()};
      },
      [](const std::tuple<>&, const at::Tensor& g) { return std::tuple{g}; });
  expect_error<UserError>([&] { captures(x); }, "fwd captures a tensor that requires grad");
  const auto mutates = custom_vjp(
      id,
      [](const at::Tensor& t) {
        at::Tensor(t).mul_(2);
        return std::pair{t * 1, std::tuple<>()};
      },
      [](const std::tuple<>&, const at::Tensor& g) { return std::tuple{g}; });
  expect_error<UserError>([&] { mutates(x * 1); }, "fwd changes 'arg0' in place");
}

}  // namespace
}  // namespace diptych::testing
