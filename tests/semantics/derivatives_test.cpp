// Second and third derivatives, gradients taken inside the function, and graphs that are kept for another backward.
#include "semantics/inputs.h"

namespace diptych::testing {
namespace {

// Higher orders.
TEST(HigherDerivatives, SecondDerivatives) {
  expect_gradients_right({leaf64({2, 3}), leaf64({3, 2}, 0.4)}, [](const Tensors& t) -> Tensors {
    return {t[0].matmul(t[1]).tanh(), t[0].sigmoid() * t[0], torch::softmax(t[0], 1)};
  });
  expect_gradients_right({leaf64({2, 4}), leaf64({4}, 0.4), leaf64({4}, 0.1)},
                         [](const Tensors& t) -> Tensors { return {torch::layer_norm(t[0], {4}, t[1], t[2])}; });
}

TEST(HigherDerivatives, ThirdDerivative) {
  const auto g = [](const at::Tensor& x) { return (x.sin() * x.pow(3)).sum(); };
  const auto f = aot_function(g);
  const auto third = [](const auto& function) {
    const at::Tensor x = leaf64({3});
    auto d = torch::autograd::grad({function(x)}, {x}, {}, true, true)[0];
    d = torch::autograd::grad({d.sum()}, {x}, {}, true, true)[0];
    return torch::autograd::grad({d.sum()}, {x})[0];
  };
  EXPECT_TRUE(at::allclose(third(g), third(f)));
}

TEST(HigherDerivatives, GradInsideTheFunction) {
  expect_as_eager(two,
                  [](const Tensors& t) -> Tensors {
                    const at::Tensor y = (t[0].sin() * t[1]).sum();
                    const at::Tensor inner = torch::autograd::grad({y}, {t[0]}, {}, true, /*create_graph=*/true)[0];
                    return {inner.pow(2).sum() + y};
                  },
                  {.tolerance = 1e-6});
}

TEST(HigherDerivatives, CreateGraphGivesGradientsThatRequireGrad) {
  const auto f = aot_function([](const at::Tensor& x) { return x.pow(3).sum(); });
  const at::Tensor x = leaf({3});
  const auto with = torch::autograd::grad({f(x)}, {x}, {}, true, true)[0];
  EXPECT_TRUE(with.requires_grad());
  const auto without = torch::autograd::grad({f(x)}, {x})[0];
  EXPECT_FALSE(without.requires_grad());
  EXPECT_TRUE(at::allclose(with, without));
}

TEST(HigherDerivatives, SecondOrderOfAMutatedPrimal) {
  const auto g = [](const at::Tensor& x) {
    x.add_(x);
    return x.mul(x);
  };
  const auto f = aot_function(g);
  const auto second = [](const auto& function) {
    const at::Tensor x = leaf64({3});
    const at::Tensor first = torch::autograd::grad({function(x.clone()).sum()}, {x}, {}, true, true)[0];
    return torch::autograd::grad({first.pow(2).sum()}, {x})[0];
  };
  EXPECT_TRUE(at::allclose(second(g), second(f)));
}

TEST(HigherDerivatives, SecondOrderWhereAutogradHasASecondFormula) {
  expect_gradients_right({leaf64({2, 3})}, [](const Tensors& t) -> Tensors { return {torch::silu(t[0])}; });
}

TEST(HigherDerivatives, SecondOrderWhereADerivativeIsZero) {
  // Autograd stands such zeros in for by tensors without memory.
  expect_gradients_right({leaf64({2, 3, 4})},
                         [](const Tensors& t) -> Tensors { return {(t[0] * t[0]).amax(2).abs()}; });
}

TEST(HigherDerivatives, SecondOrderThroughACopy) {
  const auto g = [](const at::Tensor& x) {
    const at::Tensor y = torch::zeros({2, 3}, torch::kFloat64);
    y[0].copy_(x.pow(3));
    return y.exp().sum();
  };
  const auto f = aot_function(g);
  const auto second = [](const auto& function) {
    const at::Tensor x = leaf64({3});
    const at::Tensor first = torch::autograd::grad({function(x)}, {x}, {}, true, true)[0];
    return torch::autograd::grad({first.sum()}, {x})[0];
  };
  EXPECT_TRUE(at::allclose(second(g), second(f)));
}

at::Tensor second_derivative(const auto& function) {
  const at::Tensor x = leaf64({3});
  const at::Tensor first = torch::autograd::grad({function(x)}, {x}, {}, true, true)[0];
  return torch::autograd::grad({first.pow(2).sum()}, {x})[0];
}

TEST(HigherDerivatives, SecondOrderWhereAutogradWasKeptFromSeeingAMutation) {
  const auto through_detach = [](const at::Tensor& x) {
    const at::Tensor y = x * 2;
    y.detach().add_(1);
    return y.pow(3).sum();
  };
  const auto by_data = [](const at::Tensor& x) {
    const at::Tensor y = x.exp();
    y.variable_data().mul_(2);
    return y.pow(3).sum();
  };
  const auto under_no_grad = [](const at::Tensor& x) {
    const at::Tensor y = x * 2;
    const at::NoGradGuard no_grad;
    y.clamp_(1.5);
    const at::AutoGradMode grad(true);
    return y.pow(3).sum();
  };
  const auto by_a_view_under_no_grad = [](const at::Tensor& x) {
    at::Tensor view;
    {
      const at::NoGradGuard no_grad;
      view = x.view({3});
    }
    return x.clone().mul_(view).pow(2).sum();
  };
  const std::vector<std::function<at::Tensor(const at::Tensor&)>> functions{through_detach, by_data, under_no_grad,
                                                                            by_a_view_under_no_grad};
  for (const auto& g : functions) EXPECT_TRUE(at::allclose(second_derivative(g), second_derivative(aot_function(g))));
}

TEST(HigherDerivatives, SecondOrderOfWhatIsReadByItsDataAlone) {
  const auto g = [](const at::Tensor& x) { return (x * x.exp().variable_data()).pow(2).sum(); };
  EXPECT_TRUE(at::allclose(second_derivative(g), second_derivative(aot_function(g))));
}

TEST(HigherDerivatives, SecondOrderIsRefusedWhereAMutationIsHiddenBetweenResults) {
  const auto f = aot_function([](const at::Tensor& x) -> Tensors {
    const at::Tensor y = x * 2;
    y.detach().add_(1);
    return {y, y.pow(3)};
  });
  const at::Tensor x = leaf({3});
  expect_error<UserError>([&] { torch::autograd::grad({f(x)[1].sum()}, {x}, {}, true, true); },
                          "where autograd does not see it");
}

// retain_graph.
TEST(RetainedGraphs, BackwardTwiceWithRetainGraph) {
  const auto g = [](const at::Tensor& x) { return (x.exp() * x).sum(); };
  const auto f = aot_function(g);
  const at::Tensor a = leaf({3}), b = leaf({3});
  const at::Tensor ya = g(a), yb = f(b);
  ya.backward({}, true);
  yb.backward({}, true);
  ya.backward();
  yb.backward();
  EXPECT_TRUE(at::allclose(a.grad(), b.grad()));
  expect_error<std::exception>([&] { yb.backward(); }, "Trying to backward through the graph a second time");
}

}  // namespace
}  // namespace diptych::testing
