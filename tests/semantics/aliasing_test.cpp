// Outputs that are inputs or views of them, and outputs that share memory with each other.
#include "semantics/inputs.h"

namespace diptych::testing {
namespace {

// Output is a view of an input, or an input.
TEST(InputAliases, OutputIsAViewOfAnInput) {
  // The three gradients are added up in another order than eager's.
  CheckOptions rounding;
  rounding.tolerance = 1e-6;
  expect_as_eager(
      one,
      [](const Tensors& t) -> Tensors {
        return {t[0].view({-1}), t[0].t(), t[0][1]};
      },
      rounding);
  expect_as_eager(without_grad, [](const Tensors& t) -> Tensors { return {t[0].view({-1}), t[1].t()}; });
  expect_as_eager(
      non_leaves(one),
      [](const Tensors& t) -> Tensors {
        return {t[0].view({-1}), t[0].sum()};
      },
      rounding);
}

TEST(InputAliases, OutputIsAnInputAsAnotherDtype) {
  CheckOptions options;
  options.backward = false;
  for (const auto dtype : {torch::kFloat, torch::kInt, torch::kByte, torch::kLong}) {
    expect_as_eager(
        [] {
          return Tensors{torch::ones({3, 4}, torch::kDouble)};
        },
        [&](const Tensors& t) -> Tensors { return {t[0].view(dtype)}; }, options);
  }
}

TEST(InputAliases, LaterInPlaceEditOfAViewReachesTheInput) {
  const auto f = aot_function([](const at::Tensor& x) { return x.view({-1}); });
  for (int i = 0; i < 2; ++i) {
    at::Tensor x = torch::zeros({2, 3});
    f(x).add_(1);
    EXPECT_TRUE(at::equal(x, torch::ones({2, 3})));
    at::Tensor leaf = torch::ones({2, 3}).requires_grad_();
    at::Tensor y = leaf * 3;
    f(y).mul_(2);
    y.sum().backward();
    EXPECT_TRUE(at::equal(leaf.grad(), torch::full({2, 3}, 6.0)));
  }
}

TEST(InputAliases, OutputThatIsAnInputIsTheSameTensor) {
  expect_as_eager(two, [](const Tensors& t) -> Tensors { return {t[0], t[0] * t[1], t[1]}; });
  const auto f = aot_function([](const at::Tensor& x) { return x; });
  const at::Tensor x = torch::ones({2});
  EXPECT_TRUE(f(x).is_same(x));
}

TEST(InputAliases, DetachedInputSharesItsData) {
  expect_as_eager(one, [](const Tensors& t) -> Tensors { return {t[0].detach(), t[0] * 2}; });
  expect_as_eager(one, [](const Tensors& t) -> Tensors { return {t[0].data(), t[0] * 2}; });
}

TEST(InputAliases, AliasFromBeforeAChangeOfShape) {
  expect_as_eager(cloned(false), [](const Tensors& t) -> Tensors {
    const at::Tensor before = t[0].detach();
    const at::Tensor row = t[0].select(0, 1);
    t[0].t_();
    before.select(1, 1).fill_(1.5);
    return {before, row};
  });
}

// Outputs that alias an intermediate, or each other.
TEST(OutputAliases, OutputsAliasAnIntermediate) {
  expect_as_eager(one, [](const Tensors& t) -> Tensors {
    const auto y = t[0] * 2;
    return {y.view({-1}), y.t(), y};
  });
  expect_as_eager(one, [](const Tensors& t) -> Tensors {
    const auto y = t[0] * 2;
    return {y.view({-1}), y.t()};
  });
  expect_as_eager(one, [](const Tensors& t) -> Tensors { return {(t[0] * 2).view({-1})}; });
}

TEST(OutputAliases, EditOfOneAliasingOutputReachesTheOther) {
  const auto g = [](const at::Tensor& x) {
    const auto y = x * 2;
    return std::vector<at::Tensor>{y.view({-1}), y.t()};
  };
  const auto f = aot_function(g);
  for (int i = 0; i < 2; ++i) {
    const at::Tensor eager_leaf = leaf({2, 3});
    const at::Tensor our_leaf = leaf({2, 3});
    const auto expected = g(eager_leaf);
    const auto got = f(our_leaf);
    expected[0].mul_(3);
    got[0].mul_(3);
    EXPECT_TRUE(at::equal(expected[1], got[1]));
    expected[1].sum().backward();
    got[1].sum().backward();
    EXPECT_TRUE(at::equal(eager_leaf.grad(), our_leaf.grad()));
  }
}

TEST(OutputAliases, MultiOutputViewsAreViewsOfOneBase) {
  expect_as_eager(one, [](const Tensors& t) -> Tensors { return (t[0] * 2).unbind(0); });
  expect_as_eager(one, [](const Tensors& t) -> Tensors { return t[0].unbind(1); });
  expect_as_eager(one, [](const Tensors& t) -> Tensors { return (t[0] * 2).split(2, 1); });
  expect_as_eager(one, [](const Tensors& t) -> Tensors { return t[0].chunk(2, 0); });
}

TEST(OutputAliases, TwoBackwardsInTurnThroughAliasingOutputs) {
  const auto g = [](const at::Tensor& x) { return (x * x).unbind(0); };
  const auto f = aot_function(g);
  for (int i = 0; i < 2; ++i) {
    const at::Tensor a = leaf({2, 3});
    const at::Tensor b = leaf({2, 3});
    const auto expected = g(a);
    const auto got = f(b);
    for (size_t k = 0; k < 2; ++k) {
      expected[k].sum().backward({}, /*retain_graph=*/true);
      got[k].sum().backward({}, /*retain_graph=*/true);
    }
    EXPECT_TRUE(at::equal(a.grad(), b.grad()));
  }
}

TEST(OutputAliases, InPlaceOnAMultiOutputViewIsEagersError) {
  const auto f = aot_function([](const at::Tensor& x) { return (x * 2).unbind(0); });
  const auto outputs = f(leaf({2, 3}));
  expect_error<std::exception>([&] { outputs[0].mul_(2); }, "is a view and is being modified inplace");
}

TEST(OutputAliases, OneTensorReturnedTwiceIsOneTensor) {
  expect_as_eager(one, [](const Tensors& t) -> Tensors {
    const auto y = t[0].exp();
    return {y, y};
  });
}

TEST(OutputAliases, EqualExpressionsReturnedTwiceAreTwoTensors) {
  expect_as_eager(one, [](const Tensors& t) -> Tensors { return {t[0] + 1, t[0] + 1, t[0].clone(), t[0].clone()}; });
}

TEST(OutputAliases, ViewOfAnIntermediateThatChangesItsShape) {
  // The base is square: a view taken again from the changed base would fit, and be the wrong one.
  expect_as_eager(cloned(), [](const Tensors& t) -> Tensors {
    const at::Tensor base = t[0].exp();
    const at::Tensor row = base.select(0, 1);
    base.t_();
    return {row, base};
  });
  expect_as_eager(cloned(), [](const Tensors& t) -> Tensors {
    const at::Tensor base = t[0] * 2;
    const at::Tensor row = base.select(0, 1);
    base.t_();
    row.mul_(3);
    return {base.sin()};
  });
}

TEST(OutputAliases, ViewThatChangesItsOwnShape) {
  expect_as_eager(cloned(), [](const Tensors& t) -> Tensors {
    const at::Tensor rows = t[0].narrow(0, 1, 2);
    rows.t_();
    rows.select(1, 0).mul_(0.25);
    return {rows};
  });
}

TEST(OutputAliases, ViewOfAFreshLeaf) {
  expect_as_eager(cloned(), [](const Tensors& t) -> Tensors {
    const at::Tensor fresh = torch::full({2, 3}, 0.5).requires_grad_();
    return {fresh.narrow(1, 0, 2), fresh, t[0] + 1};
  });
}

}  // namespace
}  // namespace diptych::testing
