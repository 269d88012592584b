// Autograd around and inside a compiled function.
#include <ATen/autocast_mode.h>
#include <torch/csrc/autograd/utils/lambda_post_hook.h>

#include <thread>

#include "testing/values.h"

namespace diptych::testing {
namespace {

Tensors two() { return {leaf({2, 3}), leaf({2, 3}, 0.5)}; }

// Regions.
TEST(GradModes, NoGradRegionsAreRespected) {
  expect_as_eager(two, [](const Tensors& t) -> Tensors {
    at::Tensor frozen;
    {
      const torch::NoGradGuard guard;
      frozen = (t[0] * t[1]).exp();
    }
    return {frozen * t[0], (t[0] * t[1]).exp(), frozen};
  });
}

TEST(GradModes, EnableGradInsideNoGrad) {
  const torch::NoGradGuard outer;
  expect_as_eager(two,
                  [](const Tensors& t) -> Tensors {
                    const at::Tensor plain = t[0].sin();
                    const torch::AutoGradMode inner(true);
                    return {plain, t[0].sin() * t[1]};
                  },
                  {.backward = false});
}

TEST(GradModes, DetachCutsTheGraph) {
  expect_as_eager(two, [](const Tensors& t) -> Tensors { return {t[0].exp().detach() * t[1] + t[0]}; });
}

TEST(GradModes, NoGradRegionsSurviveSecondOrder) {
  expect_gradients_right({leaf64({3})}, [](const Tensors& t) -> Tensors { return {t[0].pow(3)}; });
  const auto g = [](const at::Tensor& x) {
    at::Tensor frozen;
    {
      const torch::NoGradGuard guard;
      frozen = x.exp();
    }
    return frozen * x.pow(3) + x.exp().detach() * x.pow(2);
  };
  const auto f = aot_function(g);
  const auto second = [](const auto& function, const at::Tensor& x) {
    const auto first = torch::autograd::grad({function(x).sum()}, {x}, {}, true, true)[0];
    return torch::autograd::grad({first.sum()}, {x})[0];
  };
  EXPECT_TRUE(at::allclose(second(g, leaf64({3})), second(f, leaf64({3}))));
}

TEST(GradModes, InferenceMode) {
  const auto g = [](const at::Tensor& x) { return x.sin() * 2; };
  const auto f = aot_function(g);
  const at::Tensor x = leaf({3});
  const c10::InferenceMode guard;
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(at::equal(g(x), f(x)));
    EXPECT_EQ(g(x).is_inference(), f(x).is_inference());
  }
}

// Custom functions.
struct ScaledIdentity : torch::autograd::Function<ScaledIdentity> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x) {
    context->save_for_backward({x});
    return x * 2;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list grads) {
    // Deliberately not the derivative of the forward.
    return {grads[0] * 10 * context->get_saved_variables()[0]};
  }
};

struct CubeByRule : torch::autograd::Function<CubeByRule> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x) {
    context->save_for_backward({x});
    return x.pow(3);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list grads) {
    return {grads[0] * 3 * context->get_saved_variables()[0].pow(2)};
  }
};

struct TripledView : torch::autograd::Function<TripledView> {
  static at::Tensor forward(torch::autograd::AutogradContext*, const at::Tensor& x) { return x.view({-1}); }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 torch::autograd::variable_list grads) {
    return {grads[0] * 3};
  }
};

struct Unmaterialized : torch::autograd::Function<Unmaterialized> {
  static torch::autograd::variable_list forward(torch::autograd::AutogradContext* context, const at::Tensor& x) {
    context->set_materialize_grads(false);
    return {x * 2, x * 3};
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 torch::autograd::variable_list grads) {
    at::Tensor result;
    if (grads[0].defined()) result = grads[0] * 5;
    if (grads[1].defined()) result = result.defined() ? result + grads[1] : grads[1] * 7;
    return {result};
  }
};

TEST(CustomFunctions, CustomBackwardIsTracedAndNotDerived) {
  expect_as_eager(two, [](const Tensors& t) -> Tensors { return {ScaledIdentity::apply(t[0]) * t[1]}; });
}

TEST(CustomFunctions, UnmaterializedGradientsStayUndefined) {
  expect_as_eager(two, [](const Tensors& t) -> Tensors { return {Unmaterialized::apply(t[0])[0] * t[1]}; });
  expect_as_eager(two, [](const Tensors& t) -> Tensors { return {Unmaterialized::apply(t[0])[1]}; });
}

// The rule reads inputs alone: its second derivative is that of what it computes.
TEST(CustomFunctions, SecondOrderOfARuleThatReadsInputs) {
  const auto function = [](const at::Tensor& x) { return CubeByRule::apply(x); };
  const at::Tensor x = leaf({3});
  const auto second = [&](const at::Tensor& y) {
    const at::Tensor first = torch::autograd::grad({y.sum()}, {x}, {}, true, /*create_graph=*/true)[0];
    return torch::autograd::grad({first.sum()}, {x})[0];
  };
  EXPECT_TRUE(at::equal(second(aot_function(function)(x)), second(function(x))));
}

TEST(CustomFunctions, SecondOrderThroughACustomFunctionIsRefusedByName) {
  const auto f = aot_function([](const at::Tensor& x) { return ScaledIdentity::apply(x).square().sum(); });
  const at::Tensor x = leaf({3});
  expect_error<UserError>([&] { torch::autograd::grad({f(x)}, {x}, {}, true, /*create_graph=*/true); },
                          "torch.autograd.Function");
}

// The gradient is the Function's, and not that of the view that it gives.
TEST(CustomFunctions, AViewThatAFunctionGivesKeepsTheFunctionsGradient) {
  for (const bool of_an_input : {true, false}) {
    expect_as_eager(two, [of_an_input](const Tensors& t) -> Tensors {
      return {TripledView::apply(of_an_input ? t[0] : t[0] * t[1]), t[1] * 2};
    });
  }
}

TEST(CustomFunctions, AViewThatAFunctionGivesMayNotBeChanged) {
  const auto f = aot_function([](const at::Tensor& x) { return TripledView::apply(x); });
  const at::Tensor base = leaf({2, 3}) * 1;
  const at::Tensor view = f(base);
  EXPECT_TRUE(view.is_view() && view.is_alias_of(base));
  expect_error<c10::Error>([&] { view.mul_(2); }, "custom Function");
}

// Hooks.
TEST(Hooks, HooksOnInputsRunAroundTheGraph) {
  const auto g = [](const at::Tensor& x) { return (x * x).sum(); };
  const auto f = aot_function(g);
  int calls = 0;
  const at::Tensor x = leaf({3});
  x.register_hook([&](const at::Tensor& grad) {
    ++calls;
    return grad * 2;
  });
  f(x).backward();
  EXPECT_EQ(calls, 1);
  EXPECT_TRUE(at::allclose(x.grad(), 4 * x.detach()));
}

TEST(Hooks, HooksOnIntermediatesRunInsideIt) {
  expect_as_eager(two, [](const Tensors& t) -> Tensors {
    const at::Tensor h = t[0] * t[1];
    h.register_hook([](const at::Tensor& grad) { return grad * 3; });
    return {h.sin()};
  });
}

TEST(Hooks, HooksOnNodesRunInsideIt) {
  expect_as_eager(two, [](const Tensors& t) -> Tensors {
    const at::Tensor h = t[0] * t[1];
    const auto tripled = [](const torch::autograd::variable_list& gradients) {
      torch::autograd::variable_list result;
      for (const at::Tensor& gradient : gradients) result.push_back(gradient.defined() ? gradient * 3 : gradient);
      return result;
    };
    h.grad_fn()->add_post_hook(std::make_unique<torch::autograd::utils::LambdaPostHook>(
        [=](const torch::autograd::variable_list& outputs, const torch::autograd::variable_list&) {
          return tripled(outputs);
        }));
    const at::Tensor y = h.sin() + h.cos();
    return {y * h};
  });
}

TEST(Hooks, RetainGradOnAnOutput) {
  const auto f = aot_function([](const at::Tensor& x) {
    const at::Tensor h = x * 2;
    h.retain_grad();
    return std::pair(h, x.sin().sum());
  });
  for (int i = 0; i < 2; ++i) {
    const at::Tensor x = leaf({3});
    const auto [h, y] = f(x);
    (h.square().sum() + y).backward();
    EXPECT_TRUE(at::equal(h.grad(), 2 * h));
  }
}

TEST(Hooks, RetainGradOnANonLeafInput) {
  const auto f = aot_function([](const at::Tensor& x) { return x.sin().sum(); });
  const at::Tensor a = leaf({3});
  const at::Tensor h = a * 2;
  h.retain_grad();
  f(h).backward();
  EXPECT_TRUE(at::allclose(h.grad(), h.detach().cos()));
}

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

TEST(HigherDerivatives, SecondOrderIsRefusedWhereAutogradWasKeptFromSeeingAMutation) {
  const auto f = aot_function([](const at::Tensor& x) {
    const at::Tensor y = x * 2;
    y.detach().add_(1);
    return y.pow(3).sum();
  });
  const at::Tensor x = leaf({3});
  expect_error<UserError>([&] { torch::autograd::grad({f(x)}, {x}, {}, true, true); },
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

// Autocast.
TEST(Autocast, AutocastInsideTheFunction) {
  const auto g = [](const Tensors& t) -> Tensors {
    const bool was = at::autocast::is_autocast_enabled(at::kCPU);
    at::autocast::set_autocast_enabled(at::kCPU, true);
    const at::Tensor y = t[0].matmul(t[1].t());
    at::autocast::set_autocast_enabled(at::kCPU, false);
    const at::Tensor z = t[0].matmul(t[1].t());
    at::autocast::set_autocast_enabled(at::kCPU, was);
    at::autocast::clear_cache();
    return {y, z};
  };
  expect_as_eager(two, g);
}

TEST(Autocast, AutocastAroundTheFunction) {
  const auto g = [](const at::Tensor& x, const at::Tensor& w) { return x.matmul(w.t()).sum(); };
  const auto f = aot_function(g);
  const auto run = [](const auto& function, bool forward, bool backward) {
    const at::Tensor x = leaf({2, 3}), w = leaf({2, 3}, 0.5);
    at::autocast::set_autocast_enabled(at::kCPU, forward);
    const at::Tensor y = function(x, w);
    at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(at::kCPU, backward);
    y.backward();
    at::autocast::set_autocast_enabled(at::kCPU, false);
    at::autocast::clear_cache();
    return std::vector<at::Tensor>{y, x.grad(), w.grad()};
  };
  for (int mask = 0; mask < 4; ++mask) {
    const auto expected = run(g, mask & 1, mask & 2);
    const auto got = run(f, mask & 1, mask & 2);
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(expected[i].scalar_type(), got[i].scalar_type());
      EXPECT_TRUE(at::equal(expected[i], got[i])) << mask << " " << i;
    }
  }
}

TEST(Autocast, GradientsComeInTheForwardsDtype) {
  expect_as_eager(
      [] {
        return Tensors{leaf({2, 3}).detach().to(torch::kBFloat16).requires_grad_(), leaf({2, 3})};
      },
      [](const Tensors& t) -> Tensors { return {t[0].to(torch::kFloat) * t[1]}; });
}

// Threads.
TEST(Threads, BackwardFromAnotherThread) {
  const auto f = aot_function([](const at::Tensor& x) { return (x.exp() * x).sum(); });
  const at::Tensor x = leaf({3});
  const at::Tensor y = f(x);
  std::thread([&] { y.backward(); }).join();
  EXPECT_TRUE(at::allclose(x.grad(), (x.exp() * (x + 1)).detach()));
}

TEST(Threads, CallsFromSeveralThreads) {
  const auto f = aot_function([](const at::Tensor& x) { return (x.exp() * x).sum(); });
  std::vector<std::thread> threads;
  std::atomic<int> right{0};
  for (int64_t i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      for (int round = 0; round < 20; ++round) {
        const at::Tensor x = leaf({2 + i});
        f(x).backward();
        right += at::allclose(x.grad(), (x.exp() * (x + 1)).detach());
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(right.load(), 80);
}

// Saved tensors that are changed before the backward.
TEST(SavedTensors, ChangingASavedInputIsEagersError) {
  const auto f = aot_function([](const at::Tensor& x) { return x.sin().sum(); });
  const at::Tensor x = leaf({3});
  const at::Tensor y = f(x);
  {
    const torch::NoGradGuard guard;
    x.add_(1);
  }
  expect_error<std::exception>([&] { y.backward(); }, "has been modified by an inplace operation");
}

TEST(SavedTensors, ChangingAWeightThatIsSavedAsAViewIsEagersError) {
  const at::Tensor w = leaf({4, 3});
  const auto f = aot_function([&](const at::Tensor& x) { return torch::linear(x, w).sum(); });
  const at::Tensor y = f(leaf({2, 3}));
  {
    const torch::NoGradGuard guard;
    w.mul_(2);
  }
  expect_error<std::exception>([&] { y.backward(); }, "has been modified by an inplace operation");
}

TEST(SavedTensors, ChangingASavedOutputIsEagersError) {
  const auto f = aot_function([](const at::Tensor& x) { return x.exp(); });
  const at::Tensor x = leaf({3});
  const at::Tensor y = f(x);
  y.mul_(2);
  expect_error<std::exception>([&] { y.sum().backward(); }, "has been modified by an inplace operation");
}

TEST(SavedTensors, MutationInsideThatBackwardNeedsFailsInTheBackwardOnly) {
  const auto f = aot_function([](const at::Tensor& x) {
    const at::Tensor h = x * 2;
    const at::Tensor y = h.exp();
    y.add_(1);
    return y.sum();
  });
  const at::Tensor y = f(leaf({3}));
  EXPECT_TRUE(y.requires_grad());
  expect_error<std::exception>([&] { y.backward(); }, "has been modified by an inplace operation");
}

TEST(SavedTensors, ChangingATensorThatBackwardDoesNotNeedIsFine) {
  const auto f = aot_function([](const at::Tensor& x) { return (x * 3).sum(); });
  const at::Tensor x = leaf({3});
  const at::Tensor y = f(x);
  {
    const torch::NoGradGuard guard;
    x.add_(1);
  }
  y.backward();
  EXPECT_TRUE(at::equal(x.grad(), torch::full({3}, 3.0)));
}

}  // namespace
}  // namespace diptych::testing
