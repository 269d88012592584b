// A captured backward against the engine's: what is accumulated, what is returned, and how often it is captured.
#include "diptych/backward/backward_capture.h"

#include <gtest/gtest.h>
#include <torch/autograd.h>
#include <torch/nn.h>
#include <torch/types.h>

#include <thread>

#include "compile/backward_pass.h"
#include "diptych/diptych.h"
#include "testing/same_tensors.h"

namespace diptych::testing {
namespace {

struct Cube : torch::autograd::Function<Cube> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, at::Tensor x) {
    context->save_for_backward({x});
    return x * x * x;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const at::Tensor x = context->get_saved_variables()[0];
    return {gradients[0] * 3 * x * x};
  }
};

struct TraceableSine : torch::autograd::Function<TraceableSine> {
  static constexpr bool is_traceable = true;
  static at::Tensor forward(torch::autograd::AutogradContext* context, at::Tensor x, double factor) {
    context->save_for_backward({x});
    context->saved_data["factor"] = factor;
    return (x * factor).sin();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const double factor = context->saved_data["factor"].toDouble();
    return {gradients[0] * (context->get_saved_variables()[0] * factor).cos() * factor, at::Tensor()};
  }
};

constexpr Likeness kLaidOutAlike{.rtol = 1e-12, .atol = 1e-12, .strides = true};

// Three passes: captured once, run twice more.
void expect_captured_as_eager(const Loss& loss, const Tensors& inputs) {
  backward_capture::reset();
  const Tensors expected = gradients_of(loss, inputs);
  for (size_t pass = 0; pass < 3; ++pass) {
    const BackwardCapture capture;
    EXPECT_TRUE(same_tensors(gradients_of(loss, inputs), expected, kLaidOutAlike));
  }
  const auto statistics = backward_capture::statistics();
  EXPECT_EQ(statistics.captures, 1);
  EXPECT_EQ(statistics.hits, 2) << (statistics.misses.empty() ? "" : statistics.misses.back());
  EXPECT_EQ(statistics.eager, 0);
}

TEST(BackwardCapture, GivesEagersGradients) {
  const std::vector<std::pair<const char*, Loss>> losses{
      {"pointwise", [](const Tensors& t) { return (t[0] * t[0].tanh() + t[0].exp()).sum(); }},
      {"used twice",
       [](const Tensors& t) { return (t[0].matmul(t[1]) * t[0].matmul(t[1]).detach()).sum() + t[0].sum(); }},
      {"broadcast", [](const Tensors& t) { return (t[0] * t[0].sum(0, true) + t[0].mean()).square().sum(); }},
      {"views",
       [](const Tensors& t) { return (t[0].t().reshape({-1}).narrow(0, 2, 5) * 3).sum() + t[0].select(1, 0).sum(); }},
      {"in place", [](const Tensors& t) { return (t[0] * 2).exp_().mul(t[0]).add_(t[0]).sum(); }},
      {"in place on a view",
       [](const Tensors& t) {
         const at::Tensor x = t[0].clone();
         x.narrow(0, 0, 2).mul_(t[0].narrow(0, 1, 2));
         return (x * x).sum();
       }},
      {"in place on a view of a tensor with gaps",
       [](const Tensors& t) {
         const at::Tensor x = torch::ones({t[0].size(0), 8}, t[0].options()).slice(1, 0, 8, 2).detach();
         x.narrow(0, 0, 2).mul_(t[0].narrow(0, 1, 2));
         x.t().mul_(t[0].t());
         return (x * x).sum();
       }},
      {"split", [](const Tensors& t) { return (t[0].split(2, 0)[0].sum() * t[0].unbind(1)[1]).sum(); }},
      {"layer norm", [](const Tensors& t) { return (torch::layer_norm(t[0], {4}) * t[0]).sum(); }},
      {"softmax", [](const Tensors& t) { return (t[0].softmax(1).log() * t[0]).sum(); }},
      {"dropout", [](const Tensors& t) { return (torch::dropout(t[0], 0.5, true) * t[0]).sum(); }},
      {"index",
       [](const Tensors& t) {
         return t[0].index({torch::tensor({0, 2, 0})}).square().sum();
       }},
      {"a custom function", [](const Tensors& t) { return (Cube::apply(t[0]) * t[0]).sum(); }},
      {"a traceable one", [](const Tensors& t) { return (TraceableSine::apply(t[0], 1.5) * t[0]).sum(); }},
      {"an input that is not used", [](const Tensors& t) { return t[1].sum(); }},
      {"a scan", [](const Tensors& t) {
         const auto step = [&](const at::Tensor& h, const at::Tensor& x) {
           const at::Tensor next = torch::tanh(h * x);
           return std::pair{next, next};
         };
         return scan(step, t[0][0].detach(), t[0]).second.sum();
       }}};
  for (const auto& [name, loss] : losses) {
    SCOPED_TRACE(name);
    expect_captured_as_eager(loss, leaves({{3, 4}, {4, 3}}));
  }
}

TEST(BackwardCapture, ModulesTrainAlike) {
  torch::manual_seed(1);
  torch::nn::Sequential model(torch::nn::Conv2d(torch::nn::Conv2dOptions(2, 3, 3).padding(1)),
                              torch::nn::BatchNorm2d(3), torch::nn::ReLU(), torch::nn::MaxPool2d(2),
                              torch::nn::Flatten(), torch::nn::Linear(12, 5));
  model->to(torch::kFloat64);
  const at::Tensor x = torch::randn({4, 2, 4, 4}, torch::kFloat64), y = torch::tensor({0, 1, 2, 4});
  const Loss loss = [&](const Tensors&) { return torch::nll_loss(torch::log_softmax(model->forward(x), 1), y); };
  Tensors parameters;
  for (const at::Tensor& parameter : model->parameters()) parameters.push_back(parameter);
  expect_captured_as_eager(loss, parameters);
}

TEST(BackwardCapture, AccumulatesIntoWhatIsThere) {
  const Tensors t = leaves({{3, 3}});
  const Loss loss = [](const Tensors& x) { return (x[0] * x[0]).sum(); };
  const auto twice = [&](bool captured) {
    t[0].mutable_grad() = torch::ones({3, 3}, torch::kFloat64);
    const at::Tensor before = t[0].grad();
    std::optional<BackwardCapture> capture;
    if (captured) capture.emplace();
    loss(t).backward();
    loss(t).backward();
    EXPECT_TRUE(t[0].grad().is_same(before)) << "in place";
    return Tensors{t[0].grad().clone()};
  };
  EXPECT_TRUE(same_tensors(twice(true), twice(false), kLaidOutAlike));
}

TEST(BackwardCapture, GradOfSomeInputsAndUndefinedOnes) {
  const Tensors t = leaves({{3}, {3}, {3}});
  const auto run = [&] {
    const at::Tensor y = t[0] * t[1];
    const at::Tensor z = (y.exp() * t[1]).sum();
    Tensors found;
    for (const auto& g : torch::autograd::grad({z}, {t[1], y, t[2]}, {}, {}, false, /*allow_unused=*/true))
      found.push_back(g);
    for (const auto& g : torch::autograd::grad({(t[0] * t[1]).sum(), t[2].exp().sum()}, {t[0], t[2]}))
      found.push_back(g);
    return found;
  };
  const Tensors expected = run();
  for (int pass = 0; pass < 2; ++pass) {
    const BackwardCapture capture;
    EXPECT_TRUE(same_tensors(run(), expected, kLaidOutAlike));
  }
  EXPECT_FALSE(t[0].grad().defined());
}

// Passes with the same nodes in the same order, which end at different leaves.
TEST(BackwardCapture, OfTwoLeavesEachHasItsPass) {
  backward_capture::reset();
  const Tensors t = leaves({{3}, {3}});
  const BackwardCapture capture;
  for (int pass = 0; pass < 2; ++pass) {
    for (size_t i = 0; i < 2; ++i) {
      const auto first = torch::autograd::grad({(t[0].exp() * t[1].exp()).sum()}, {t[i]}, {}, true, true);
      EXPECT_TRUE(torch::allclose(first[0], (t[0] + t[1]).exp()));
      const auto product = torch::autograd::grad({(t[0] * t[1]).sum()}, {t[i]});
      EXPECT_TRUE(product[0].equal(t[1 - i])) << i;
    }
  }
  EXPECT_EQ(backward_capture::statistics().captures, 4);
}

TEST(BackwardCapture, PairsThatAreGoneAreNotTakenForNewOnes) {
  const BackwardCapture capture;
  for (int i = 1; i < 20; ++i) {
    const double factor = i;
    const auto scaled = aot_function([factor](const at::Tensor& x) { return (x * factor).sum(); });
    const at::Tensor x = torch::ones({2}, torch::kFloat64).requires_grad_();
    scaled(x).backward();
    EXPECT_TRUE(x.grad().equal(torch::full({2}, factor, torch::kFloat64))) << i;
  }
}

TEST(BackwardCapture, BackwardIntoSomeInputs) {
  const Tensors t = leaves({{3}, {3}});
  const auto run = [&](const std::function<void(const at::Tensor&)>& backward) {
    for (const at::Tensor& x : t) x.mutable_grad().reset();
    backward((t[0] * t[1]).sum());
    return Tensors{t[0].grad(), t[1].grad()};
  };
  const auto into_first = [&](const at::Tensor& loss) { loss.backward({}, {}, false, at::TensorList{t[0]}); };
  const Tensors expected = run(into_first);
  const BackwardCapture capture;
  EXPECT_TRUE(same_tensors(run(into_first), expected, kLaidOutAlike));
}

TEST(BackwardCapture, RetainedGraphsAndThoseThatAreNot) {
  const Tensors t = leaves({{3}});
  const BackwardCapture capture;
  const at::Tensor kept = (t[0] * t[0]).exp().sum();
  kept.backward({}, /*retain_graph=*/true);
  const at::Tensor once = t[0].grad().clone();
  kept.backward();
  EXPECT_TRUE(torch::allclose(t[0].grad(), once * 2));
  try {
    kept.backward();
    FAIL() << "the graph was not released";
  } catch (const c10::Error& error) {
    EXPECT_NE(std::string(error.what()).find("Trying to backward through the graph a second time"), std::string::npos);
  }
}

TEST(BackwardCapture, HigherOrders) {
  const Tensors t = leaves({{3}, {3}});
  const auto third = [&] {
    const at::Tensor y = ((t[0] * t[1]).tanh() * t[0].exp()).sum();
    const auto first = torch::autograd::grad({y}, t, {}, true, true);
    const auto second = torch::autograd::grad({first[0].square().sum() + first[1].sum()}, t, {}, true, true);
    const auto last = torch::autograd::grad({second[0].sum() * second[1].sum()}, t);
    return Tensors{first[0].detach(), second[0].detach(), second[1].detach(), last[0], last[1]};
  };
  const Tensors expected = third();
  for (int pass = 0; pass < 2; ++pass) {
    const BackwardCapture capture;
    EXPECT_TRUE(same_tensors(third(), expected, kLaidOutAlike));
  }
}

TEST(BackwardCapture, ChangingWhatIsSavedIsEagersError) {
  const Tensors t = leaves({{3}});
  const BackwardCapture capture;
  const at::Tensor y = t[0] * 2;
  const at::Tensor z = (y * y).sum();
  y.detach().mul_(2);
  EXPECT_THROW(z.backward(), c10::Error);
}

TEST(BackwardCapture, PairsOfOursAreInlinedIntoOneGraph) {
  const auto half = [](const std::string& name) {
    return aot_function([](const at::Tensor& x) { return torch::tanh(x * 2).matmul(x); }, {.name = name});
  };
  const auto first = half("first"), second = half("second");
  const Loss loss = [&](const Tensors& t) { return second(first(t[0]).exp().clamp(0, 2)).sum(); };
  expect_captured_as_eager(loss, leaves({{3, 3}}));
  const std::string code = backward_capture::last_graph().code();
  EXPECT_NE(code.find("DiptychBackward(first)"), std::string::npos) << code;
  EXPECT_NE(code.find("DiptychBackward(second)"), std::string::npos);
  EXPECT_NE(code.find("aten.tanh_backward"), std::string::npos) << "inlined, and not called";
}

TEST(BackwardCapture, SparseGradients) {
  torch::manual_seed(2);
  const Tensors weight{torch::randn({5, 2}, torch::kFloat64).requires_grad_()};
  const Loss loss = [](const Tensors& t) {
    return torch::embedding(t[0], torch::tensor({1, 3, 1}), -1, false, /*sparse=*/true).square().sum();
  };
  expect_captured_as_eager(loss, weight);
}

TEST(BackwardCapture, EveryMissIsExplained) {
  backward_capture::reset();
  const BackwardCapture capture;
  const auto run = [](int64_t size, bool with_exp) {
    const at::Tensor x = torch::ones({size}).requires_grad_();
    const at::Tensor y = x * x;
    (with_exp ? y.exp() : y.tanh()).sum().backward();
  };
  run(10, false);
  run(10, false);
  run(20, false);
  run(20, true);
  const auto statistics = backward_capture::statistics();
  ASSERT_EQ(statistics.captures, 3);
  EXPECT_EQ(statistics.hits, 1);
  EXPECT_EQ(statistics.misses[0], "the first backward");
  EXPECT_NE(statistics.misses[1].find("changed 10 -> 20"), std::string::npos) << statistics.misses[1];
  EXPECT_EQ(statistics.misses[2], "new autograd node ExpBackward0 (call 2)");
}

TEST(BackwardCapture, ReturnsAsManyGradientsAsAreAskedFor) {
  const BackwardCapture capture;
  const at::Tensor w = torch::ones({3}).requires_grad_();
  const at::Tensor x = torch::ones({3}).requires_grad_(), z = torch::ones({3}).requires_grad_();
  for (const std::vector<at::Tensor>& inputs : {std::vector<at::Tensor>{w, x}, {w, x, z}, {w}, {w, x, z}}) {
    const auto found = torch::autograd::grad({(w * 2).sum()}, inputs, {}, {}, false, /*allow_unused=*/true);
    ASSERT_EQ(found.size(), inputs.size());
    EXPECT_TRUE(at::equal(found[0], torch::full({3}, 2.0F)));
    for (size_t i = 1; i < found.size(); ++i) EXPECT_FALSE(found[i].defined());
  }
}

TEST(BackwardCapture, FormulasMayAskWhetherWhatTheySavedRequiresGrad) {
  const at::Tensor a = (torch::eye(3, torch::kDouble) * 2).requires_grad_();
  const at::Tensor b = torch::ones({3, 2}, torch::kDouble).requires_grad_();
  for (const bool again : {false, true}) {
    const auto gradients = [&] {
      auto found = torch::autograd::grad({at::linalg_solve(a, b).square().sum()}, {a, b}, {}, {}, again);
      if (again) found = torch::autograd::grad({found[0].square().sum() + found[1].sum()}, {a, b});
      return found;
    };
    const auto expected = gradients();
    const BackwardCapture capture;
    const auto found = gradients();
    EXPECT_TRUE(same_tensors(found, expected, kClose)) << again;
  }
}

TEST(BackwardCapture, LastGraphNeedsAPass) {
  std::thread([] { EXPECT_THROW(backward_capture::last_graph(), UserError); }).join();
}

}  // namespace
}  // namespace diptych::testing
