// Outputs that no backward uses, tangents and outputs of odd layouts, and what is differentiable among the outputs.
#include "semantics/inputs.h"

namespace diptych::testing {
namespace {

// Outputs that no backward uses, inputs that nothing reaches.
TEST(UnusedOutputs, UnusedOutputCostsNothingAndGivesUndefinedGradients) {
  const auto f = aot_function([](const at::Tensor& a, const at::Tensor& b) { return std::pair(a.exp(), b.sin()); });
  for (int i = 0; i < 2; ++i) {
    const at::Tensor a = leaf({3});
    const at::Tensor b = leaf({3});
    const auto [y, z] = f(a, b);
    y.sum().backward();
    EXPECT_TRUE(a.grad().defined());
    EXPECT_FALSE(b.grad().defined());
    (void)z;
  }
}

TEST(UnusedOutputs, EachSetOfDefinedTangentsHasItsBackward) {
  const auto g = [](const at::Tensor& a, const at::Tensor& b) {
    return std::vector<at::Tensor>{a * b, a.sin(), b.cos()};
  };
  const auto f = aot_function(g);
  for (int mask = 1; mask < 8; ++mask) {
    at::Tensor ea = leaf({3}), eb = leaf({3}), a = leaf({3}), b = leaf({3});
    const auto expected = g(ea, eb);
    const auto got = f(a, b);
    for (int k = 0; k < 3; ++k) {
      if ((mask >> k & 1) == 0) continue;
      expected[k].sum().backward({}, true);
    }
    at::Tensor total;
    for (int k = 0; k < 3; ++k) {
      if ((mask >> k & 1) == 0) continue;
      total = total.defined() ? total + got[k].sum() : got[k].sum();
    }
    total.backward();
    EXPECT_EQ(ea.grad().defined(), a.grad().defined()) << mask;
    EXPECT_EQ(eb.grad().defined(), b.grad().defined()) << mask;
    if (a.grad().defined()) EXPECT_TRUE(at::allclose(ea.grad(), a.grad())) << mask;
    if (b.grad().defined()) EXPECT_TRUE(at::allclose(eb.grad(), b.grad())) << mask;
  }
}

TEST(UnusedOutputs, InputsThatNothingReachesGetUndefinedGradients) {
  expect_as_eager(two, [](const Tensors& t) -> Tensors { return {t[0] * 2}; });
}

// Tangents of odd layouts.
TEST(Tangents, TangentsOfOddStridesAreAccepted) {
  const auto g = [](const at::Tensor& x) { return x.view({3, 2}).mul(2).view({6}).view({2, 3}).sin(); };
  const auto f = aot_function(g);
  const std::vector<at::Tensor> tangents = {torch::ones({1, 1}).expand({2, 3}), torch::rand({3, 2}).t(),
                                            torch::rand({2, 6}).slice(1, 0, 6, 2), torch::ones({}).expand({2, 3})};
  for (const at::Tensor& tangent : tangents) {
    const at::Tensor a = leaf({2, 3});
    const at::Tensor b = leaf({2, 3});
    g(a).backward(tangent);
    f(b).backward(tangent);
    EXPECT_TRUE(at::equal(a.grad(), b.grad())) << tangent.strides();
  }
}

TEST(Tangents, ChannelsLastTangents) {
  const auto w = leaf({4, 3, 3, 3});
  const auto g = [&](const at::Tensor& x) { return torch::conv2d(x, w, {}, 1, 1); };
  const auto f = aot_function(g);
  const at::Tensor a = leaf({2, 3, 5, 5});
  const at::Tensor b = leaf({2, 3, 5, 5});
  const at::Tensor tangent = torch::rand({2, 4, 5, 5}).contiguous(at::MemoryFormat::ChannelsLast);
  g(a).backward(tangent);
  f(b).backward(tangent);
  EXPECT_TRUE(at::allclose(a.grad(), b.grad(), 1e-4, 1e-5));
}

// LibTorch lays these out in another way where tensors have no memory.
TEST(Layouts, PlacesOfWhatIsNotZeroAreContiguous) {
  expect_as_eager(without_grad, [](const Tensors& t) -> Tensors {
    const at::Tensor places = at::nonzero_static(t[0].gt(0.5), 4);
    return {places, places.view({-1})};
  });
}

// Outputs that can't be differentiated.
TEST(RequiresGrad, IntegerArgmaxAndDetachedOutputs) {
  expect_as_eager(one, [](const Tensors& t) -> Tensors {
    const auto y = t[0].exp();
    return {y.argmax(1), (y > 1), y.detach(), y, y.detach() * 2, torch::arange(3)};
  });
}

TEST(RequiresGrad, NoDifferentiableOutputAtAll) {
  expect_as_eager(one, [](const Tensors& t) -> Tensors { return {t[0].argmax(1), t[0].detach() + 1}; });
}

TEST(RequiresGrad, FreshLeafIsALeaf) {
  const auto f = aot_function([](const at::Tensor& x) { return std::pair(x * 2, torch::zeros({2}).requires_grad_()); });
  const auto [y, fresh] = f(leaf({2}));
  EXPECT_TRUE(fresh.is_leaf() && fresh.requires_grad());
  EXPECT_FALSE(y.is_leaf());
}

TEST(RequiresGrad, RequiresGradUnderNoGrad) {
  const auto g = [](const Tensors& t) -> Tensors { return {t[0] * 2, t[0], t[0].view({-1})}; };
  const torch::NoGradGuard guard;
  expect_as_eager(one, g);
}

TEST(RequiresGrad, ViewThatIsMadeALeaf) {
  const auto two = [] { return Tensors{values({2, 2})}; };
  expect_as_eager(two, [](const Tensors& t) -> Tensors {
    at::Tensor v = t[0].view({-1});
    v.requires_grad_();
    return {v};
  });
  expect_as_eager(two, [](const Tensors& t) -> Tensors {
    const at::Tensor y = t[0] * 2;
    at::Tensor v = y.select(0, 0);
    v.requires_grad_();
    return {y, v};
  });
}

}  // namespace
}  // namespace diptych::testing
