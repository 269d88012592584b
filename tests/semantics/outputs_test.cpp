// What outputs and inputs of a compiled function are, alias and become, beside eager.
#include <torch/nn.h>
#include "testing/values.h"

namespace diptych::testing {
namespace {

Tensors one() { return {leaf({2, 3})}; }
Tensors two() { return {leaf({2, 3}), leaf({2, 3}).detach().add(0.5).requires_grad_()}; }
Tensors without_grad() { return {values({2, 3}), values({2, 3}).add(1)}; }

// Leaves, and what is computed from them: the function's arguments are no leaves.
Inputs non_leaves(std::function<Tensors()> leaves) {
  return {std::move(leaves), [](const Tensors& tensors) {
            Tensors derived;
            for (const at::Tensor& tensor : tensors) derived.push_back(tensor * 2);
            return derived;
          }};
}

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

// Inputs mutated in place.
TEST(Mutation, InputMutatedInPlace) {
  expect_as_eager(without_grad, [](const Tensors& t) -> Tensors {
    t[0].add_(1);
    return {t[0] * t[1]};
  });
  expect_as_eager(non_leaves(two), [](const Tensors& t) -> Tensors {
    t[0].mul_(t[1]);
    return {t[0].sin()};
  });
}

TEST(Mutation, InputMutatedThroughAView) {
  expect_as_eager(without_grad, [](const Tensors& t) -> Tensors {
    t[0].view({-1}).select(0, 1).fill_(9);
    return {t[0] + t[1]};
  });
  expect_as_eager(non_leaves(two), [](const Tensors& t) -> Tensors {
    t[0][1].mul_(3);
    return {t[0] * t[1]};
  });
}

TEST(Mutation, InputMutatedUnderNoGrad) {
  expect_as_eager(two, [](const Tensors& t) -> Tensors {
    const auto y = t[0] + t[1];
    {
      const torch::NoGradGuard guard;
      t[0].add_(1);
    }
    return {y};
  });
}

TEST(Mutation, InputMutatedBehindAutogradsBack) {
  expect_as_eager(two, [](const Tensors& t) -> Tensors {
    t[0].detach().add_(2);
    return {t[0] + t[1]};
  });
}

TEST(Mutation, MutationIsSeenByEveryAliasOutside) {
  const auto f = aot_function([](const at::Tensor& x) {
    x.mul_(2);
    return x.sum();
  });
  for (int i = 0; i < 2; ++i) {
    const at::Tensor base = torch::ones({2, 3});
    const at::Tensor row = base[0];
    f(base);
    EXPECT_TRUE(at::equal(row, torch::full({3}, 2.0)));
    f(row);
    EXPECT_TRUE(at::equal(base[0], torch::full({3}, 4.0)));
  }
}

TEST(Mutation, InputBecomesTheValueOfAnother) {
  expect_as_eager(Inputs{[] {
                    return Tensors{values({2, 3}), leaf({2, 3})};
                  }},
                  [](const Tensors& t) -> Tensors {
                    t[0].copy_(t[1] * 2);
                    return {t[0] * 3};
                  });
}

TEST(Mutation, BatchNormBuffersAreUpdated) {
  const auto make = [] { return Tensors{leaf({4, 3, 2}), leaf({3}), leaf({3}), torch::zeros({3}), torch::ones({3})}; };
  CheckOptions close;
  close.tolerance = 1e-6;
  expect_as_eager(
      Inputs{make},
      [](const Tensors& t) -> Tensors {
        return {torch::batch_norm(t[0], t[1], t[2], t[3], t[4], /*training=*/true, 0.1, 1e-5, false)};
      },
      close);
  expect_as_eager(
      Inputs{make},
      [](const Tensors& t) -> Tensors {
        return {torch::batch_norm(t[0], t[1], t[2], t[3], t[4], /*training=*/false, 0.1, 1e-5, false)};
      },
      close);
}

TEST(Mutation, CapturedBuffersAreUpdatedToo) {
  torch::nn::BatchNorm1d ours(3);
  torch::nn::BatchNorm1d eager(3);
  const auto f = aot_function([&](const at::Tensor& x) { return ours->forward(x).pow(2).sum(); });
  for (int i = 0; i < 3; ++i) {
    const at::Tensor x = torch::randn({8, 3});
    const at::Tensor expected = eager->forward(x).pow(2).sum();
    const at::Tensor got = f(x);
    EXPECT_TRUE(at::allclose(expected, got));
    expected.backward();
    got.backward();
    EXPECT_TRUE(at::allclose(eager->running_mean, ours->running_mean));
    EXPECT_TRUE(at::allclose(eager->running_var, ours->running_var));
    EXPECT_TRUE(at::equal(eager->num_batches_tracked, ours->num_batches_tracked));
    EXPECT_TRUE(at::allclose(eager->weight.grad(), ours->weight.grad()));
  }
}

TEST(Mutation, MetadataOfAnInputIsMutated) {
  expect_as_eager(without_grad, [](const Tensors& t) -> Tensors {
    t[0].t_();
    return {t[0] * 2};
  });
  expect_as_eager(without_grad, [](const Tensors& t) -> Tensors {
    t[0].unsqueeze_(0);
    t[0].mul_(3);
    return {t[0].sum()};
  });
  expect_as_eager(non_leaves(two), [](const Tensors& t) -> Tensors {
    t[0].transpose_(0, 1);
    return {t[0].sin() + t[1].t()};
  });
}

// The same tensor twice; argument and captured.
TEST(SharedStorage, OneTensorPassedTwice) {
  const Inputs twice{one, [](const Tensors& t) { return Tensors{t[0], t[0]}; }};
  expect_as_eager(twice, [](const Tensors& t) -> Tensors { return {t[0] * t[1].exp()}; });
}

TEST(CapturedTensors, ArgumentThatIsCapturedTooIsTheArgument) {
  const at::Tensor w = leaf({2, 3});
  const Pair pair = capture([&](const at::Tensor& x) { return x * w; }, w);
  EXPECT_TRUE(pair.free_variables.empty());
  EXPECT_EQ(pair.signature.num_arguments(), 1U);
  const auto f = aot_function([&](const at::Tensor& x) { return (x * w).sum(); });
  f(w).backward();
  EXPECT_TRUE(at::allclose(w.grad(), 2 * w.detach()));
}

TEST(CapturedTensors, CapturedTensorsAreFreeVariables) {
  const at::Tensor w = leaf({2, 3});
  const at::Tensor b = values({3});
  const auto g = [&](const at::Tensor& x) { return (x * w + b).tanh().sum(); };
  const auto f = aot_function(g);
  for (int i = 0; i < 2; ++i) {
    const at::Tensor x = leaf({2, 3});
    const at::Tensor expected_x = leaf({2, 3});
    w.mutable_grad() = at::Tensor();
    g(expected_x).backward();
    const at::Tensor expected_w = w.grad().clone();
    w.mutable_grad() = at::Tensor();
    f(x).backward();
    EXPECT_TRUE(at::equal(w.grad(), expected_w));
    EXPECT_TRUE(at::equal(x.grad(), expected_x.grad()));
  }
}

TEST(CapturedTensors, CapturedTensorMutatedThroughAView) {
  at::Tensor counter = torch::zeros({2, 2});
  const auto f = aot_function([&](const at::Tensor& x) {
    counter.t()[0].add_(1);
    return x + counter;
  });
  for (int i = 1; i <= 3; ++i) {
    const at::Tensor got = f(torch::zeros({2, 2}));
    EXPECT_TRUE(at::equal(got, torch::tensor({{1.0F * i, 0.0F}, {1.0F * i, 0.0F}}))) << got;
    EXPECT_TRUE(at::equal(counter, got));
  }
}

TEST(CapturedTensors, ACapturedTensorIsGuarded) {
  const at::Tensor captured = torch::ones({3});
  const auto f = aot_function([&](const at::Tensor& x) { return x * captured; });
  EXPECT_FALSE(f(torch::ones({3})).requires_grad());
  captured.requires_grad_();
  EXPECT_TRUE(f(torch::ones({3})).requires_grad());
  EXPECT_NE(f.stats().last_miss.find("free.0"), std::string::npos) << f.stats().last_miss;
}

TEST(CapturedTensors, ShapeOfACapturedTensorIsNotChangedInPlace) {
  const at::Tensor captured = torch::ones({3});
  const auto f = aot_function([&](const at::Tensor& x) {
    captured.unsqueeze_(0);
    return x * 2;
  });
  expect_error<UserError>([&] { f(torch::zeros({1})); }, "changes the shape of a captured tensor");
}

TEST(Mutation, MetadataOfASlicedTensorKeepsItsStrides) {
  const Inputs sliced{[] {
                        return Tensors{values({4, 6})};
                      },
                      [](const Tensors& t) { return Tensors{t[0].slice(1, 0, 6, 2)}; }};
  expect_as_eager(sliced, [](const Tensors& t) -> Tensors {
    t[0].zero_();
    t[0].unsqueeze_(1);
    return {t[0] + 1};
  });
}

TEST(GradModes, ViewsTakenUnderNoGradAreTakenSoAgain) {
  expect_as_eager(without_grad, [](const Tensors& t) -> Tensors {
    t[0].fill_(1);
    const torch::NoGradGuard guard;
    return {t[0].view({-1}), t[1] * 2};
  });
  expect_as_eager(non_leaves(two), [](const Tensors& t) -> Tensors {
    at::Tensor view;
    {
      const torch::NoGradGuard guard;
      view = t[0].view({-1});
    }
    return {view, t[0] * t[1]};
  });
}

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

// What eager refuses, and what no graph can hold.
TEST(Refusals, LeafThatRequiresGradMutatedIsEagersError) {
  const auto f = aot_function([](const at::Tensor& x) { return x.add_(1); });
  expect_error<std::exception>([&] { f(leaf({2})); },
                               "a leaf Variable that requires grad is being used in an in-place operation");
  const auto g = aot_function([](const at::Tensor& x) { return x.view({-1}).add_(1); });
  expect_error<std::exception>([&] { g(leaf({2})); },
                               "a view of a leaf Variable that requires grad is being used in an in-place operation");
}

TEST(Refusals, StorageChangesAreRefusedByName) {
  const auto set = aot_function([](const at::Tensor& x) { return x.set_(torch::zeros({3})); });
  expect_error<UserError>([&] { set(torch::ones({2})); }, "aten::set_");
  const auto resize = aot_function([](const at::Tensor& x) { return x.resize_({5}); });
  expect_error<UserError>([&] { resize(torch::ones({2})); }, "aten::resize_");
}

TEST(Refusals, DataDependentValuesAreRefusedByNameAndScope) {
  const auto item = aot_function([](const at::Tensor& x) {
    const auto guard = scope("head");
    return x.sum().item<float>() > 0 ? x : -x;
  });
  expect_error<UserError>([&] { item(torch::ones({2})); }, "'head'");
  const auto shape = aot_function([](const at::Tensor& x) { return x.nonzero(); });
  expect_error<UserError>([&] { shape(torch::ones({2})); }, "aten::nonzero");
}

}  // namespace
}  // namespace diptych::testing
