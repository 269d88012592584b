// How results stand in autograd's graph: gradients with respect to them, leaves among them, one backward after another.
#include "testing/values.h"

namespace diptych::testing {
namespace {

namespace ag = torch::autograd;

constexpr const char* kTwice = "Trying to backward through the graph a second time";

at::Tensor grad_of(const at::Tensor& result, const at::Tensor& wanted, bool create_graph = false) {
  return ag::grad({result.sum()}, {wanted}, {}, /*retain_graph=*/true, create_graph, /*allow_unused=*/true)[0];
}

// Two steps of a cell, whose states come out one by one and stacked.
Tensors states(const at::Tensor& x) {
  const at::Tensor first = at::tanh(x * x);
  const at::Tensor second = at::tanh(first * x);
  return {first, second, at::stack({first, second}), second.slice(0, 1)};
}

TEST(Results, HaveGradientsWithRespectToEachOther) {
  const auto compiled = aot_function(states);
  for (int call = 0; call < 2; ++call) {
    const at::Tensor a = leaf64({3}), b = leaf64({3});
    Tensors expected = states(a), got = compiled(b);
    const size_t count = expected.size();
    expected.push_back(a);
    got.push_back(b);
    for (size_t i = 0; i < count; ++i) {
      for (size_t j = 0; j < expected.size(); ++j) {
        EXPECT_TRUE(same_tensor(grad_of(got[i], got[j]), grad_of(expected[i], expected[j]), kClose));
      }
    }
  }
}

TEST(Results, HaveSecondDerivativesWithRespectToEachOther) {
  const auto compiled = aot_function(states);
  const at::Tensor a = leaf64({3}), b = leaf64({3});
  Tensors expected = states(a), got = compiled(b);
  expected.push_back(a);
  got.push_back(b);
  for (size_t j : {0, 4}) {
    const at::Tensor first = grad_of(expected[2], expected[j], true), ours = grad_of(got[2], got[j], true);
    EXPECT_TRUE(same_tensor(ours, first, kClose));
    if (!first.requires_grad()) continue;
    for (size_t k : {j, size_t{4}})
      EXPECT_TRUE(same_tensor(grad_of(ours, got[k]), grad_of(first, expected[k]), kClose));
  }
}

TEST(Results, AreHookedWhereAllOfTheirGradientArrives) {
  const auto gradients = [](const auto& function) {
    const at::Tensor x = leaf64({3});
    const Tensors results = function(x);
    results[0].retain_grad();
    results[1].register_hook([](const at::Tensor& gradient) { return gradient * 3; });
    (results[2].sum() + results[0].sum()).backward();
    return Tensors{results[0].grad(), x.grad()};
  };
  const auto expected = gradients(states), got = gradients(aot_function(states));
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(same_tensor(got[i], expected[i], kClose));
}

TEST(Results, OfAChangedArgumentLeadToTheArgument) {
  const auto g = [](const at::Tensor& x) {
    x.mul_(2);
    return x.sin();
  };
  const auto gradient = [](const auto& function) {
    const at::Tensor x = leaf64({3}) * 1;
    const at::Tensor y = function(x);
    return grad_of(y, x);
  };
  EXPECT_TRUE(same_tensor(gradient(aot_function(g)), gradient(g), kClose));
}

// The view has its place before the result that is computed from it, and a write after that would take it away.
TEST(Results, AViewOfWhatWasChangedBehindAutogradsBack) {
  const auto views = [](const at::Tensor& x) -> Tensors {
    x.detach().mul_(2);
    const at::Tensor view = x.split(2)[1].expand({2, 1});
    return {view, view.clone()};
  };
  const at::Tensor a = leaf64({3}), b = leaf64({3});
  const Tensors expected = views(a), got = aot_function(views)(b);
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_TRUE(same_tensor(got[i], expected[i], kClose));
    EXPECT_TRUE(same_tensor(grad_of(got[i], b), grad_of(expected[i], a), kClose));
  }
}

TEST(Results, ALeafThatIsMadeInsideGetsItsGradient) {
  const auto g = [](const at::Tensor& x) -> Tensors {
    const at::Tensor w = torch::ones({3}, torch::kFloat64).requires_grad_();
    return {w, (x * w * w).sum()};
  };
  const auto compiled = aot_function(g);
  for (int call = 0; call < 2; ++call) {
    const at::Tensor x = leaf64({3});
    const Tensors results = compiled(x);
    EXPECT_TRUE(results[0].is_leaf());
    results[1].backward();
    EXPECT_TRUE(same_tensor(results[0].grad(), x.detach() * 2, kClose));
    EXPECT_TRUE(same_tensor(x.grad(), at::ones_like(x), kClose));
  }
}

// Each backward runs what eager's would; one that comes through what another has freed is refused.
TEST(Results, BackwardsInTurnShareOnlyWhatEagerShares) {
  const auto g = [](const at::Tensor& x, const at::Tensor& w) -> Tensors {
    const at::Tensor shared = x.exp();
    return {x.sin(), w.exp(), x + w, shared.sin(), shared * 2};
  };
  const auto compiled = aot_function(g);
  for (int call = 0; call < 2; ++call) {
    const at::Tensor a = leaf64({3}), b = leaf64({3}, 1), x = leaf64({3}), w = leaf64({3}, 1);
    const Tensors expected = g(a, b), got = compiled(x, w);
    for (const size_t i : {0, 1, 2, 2, 3}) {
      expected[i].sum().backward();
      got[i].sum().backward();
      EXPECT_TRUE(same_tensor(x.grad(), a.grad(), kClose));
      EXPECT_TRUE(same_tensor(w.grad(), b.grad(), kClose));
    }
    for (const size_t i : {0, 1, 3, 4}) {
      expect_error<std::exception>([&] { expected[i].sum().backward(); }, kTwice);
      expect_error<std::exception>([&] { got[i].sum().backward(); }, kTwice);
    }
  }
}

TEST(Results, GradientsForOneArgumentLeaveThoseForAnother) {
  const auto g = [](const at::Tensor& x, const at::Tensor& w) { return x.sin() + w.exp(); };
  const auto compiled = aot_function(g);
  const at::Tensor x = leaf64({3}), w = leaf64({3}, 1);
  const at::Tensor y = compiled(x, w).sum();
  EXPECT_TRUE(same_tensor(ag::grad({y}, {x}, {}, false)[0], x.cos(), kClose));
  EXPECT_TRUE(same_tensor(ag::grad({y}, {w}, {}, false)[0], w.exp(), kClose));
  expect_error<std::exception>([&] { ag::grad({y}, {x}, {}, false); }, kTwice);
}

TEST(Results, TheHistoryOfAnArgumentThatIsNotUsedIsLeftAlone) {
  const auto compiled = aot_function([](const at::Tensor& x, const at::Tensor&) { return x.sin(); });
  const at::Tensor x = leaf64({3}), w = leaf64({3}, 1);
  const at::Tensor unused = w.exp();
  compiled(x, unused).sum().backward();
  unused.sum().backward();
  EXPECT_TRUE(same_tensor(w.grad(), w.exp(), kClose));
}

/// Adds one to a counter in its backward.
struct Counting : ag::Function<Counting> {
  static at::Tensor forward(ag::AutogradContext* context, const at::Tensor& x, const at::Tensor& count) {
    context->save_for_backward({count});
    return x * 2;
  }
  static ag::variable_list backward(ag::AutogradContext* context, const ag::variable_list& gradients) {
    context->get_saved_variables()[0].add_(1);
    return {gradients[0] * 2, at::Tensor()};
  }
};

TEST(Results, ABackwardThatChangesATensorFromOutsideIsRefused) {
  const at::Tensor count = torch::zeros({});
  const auto compiled = aot_function([&](const at::Tensor& x) { return Counting::apply(x, count); });
  expect_error<UserError>([&] { (void)compiled(leaf64({3})); },
                          "the backward of the function changes 'free.0' in place");
  EXPECT_EQ(count.item<float>(), 0);
}

// A hook, and a Function whose derivative is not that of what it computes.
struct Straight : torch::autograd::Function<Straight> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x) {
    const at::Tensor y = (x * 4).round();
    context->save_for_backward({y});
    return y;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& tangents) {
    return {tangents[0] * context->get_saved_variables()[0]};
  }
};

at::Tensor hooked(const at::Tensor& x) {
  const at::Tensor y = x.sin();
  y.register_hook([](const at::Tensor& gradient) { return gradient * gradient; });
  return (y * y).sum();
}

at::Tensor straight(const at::Tensor& x) { return (Straight::apply(x.sin()) * x).sum(); }

TEST(Results, HooksAndFunctionsHaveAPartInTheSecondAndThirdOrder) {
  for (const auto function : {hooked, straight}) {
    const auto compiled = aot_function(function);
    const at::Tensor x = leaf64({3}), y = x.detach().clone().requires_grad_();
    at::Tensor eager = function(x), ours = compiled(y);
    for (int order = 1; order <= 3; ++order) {
      eager = grad_of(eager.sum(), x, true);
      ours = grad_of(ours.sum(), y, true);
      EXPECT_TRUE(same_tensor(ours, eager, kClose)) << order;
    }
  }
}

}  // namespace
}  // namespace diptych::testing
