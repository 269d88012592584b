// Hooks in captured backwards: all kinds in random places are called as often, in the order and on the values of eager.
#include <gtest/gtest.h>
#include <torch/autograd.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/utils/lambda_post_hook.h>
#include <torch/types.h>

#include <random>

#include "diptych/backward/backward_capture.h"
#include "diptych/backward/register_hook.h"
#include "testing/expect_error.h"
#include "testing/same_tensors.h"

namespace diptych::testing {
namespace {

namespace ag = torch::autograd;

/// What hooks saw, in order.
using Diary = std::vector<std::pair<std::string, at::Tensor>>;

struct PreHook final : ag::FunctionPreHook {
  explicit PreHook(std::function<void(const at::Tensor&)> see) : see_(std::move(see)) {}
  ag::variable_list operator()(const ag::variable_list& gradients) override {
    ag::variable_list changed;
    for (const at::Tensor& gradient : gradients) {
      if (gradient.defined()) see_(gradient);
      changed.push_back(gradient.defined() ? gradient * 1.5 : gradient);
    }
    return changed;
  }
  std::function<void(const at::Tensor&)> see_;
};

struct AfterAccumulation final : ag::PostAccumulateGradHook {
  explicit AfterAccumulation(std::function<void(const at::Tensor&)> see) : see_(std::move(see)) {}
  void operator()(const ag::Variable& tensor) override {
    see_(tensor.grad());
    tensor.mutable_grad() = tensor.grad() * 2;
  }
  std::function<void(const at::Tensor&)> see_;
};

/// A random chain of operators on two leaves with hooks at random places.
class Program {
 public:
  Program(uint64_t seed, Diary& diary) : random_(seed), diary_(diary) {}

  at::Tensor loss(const Tensors& leaves) {
    for (const at::Tensor& leaf : leaves) hook_leaf(leaf);
    Tensors pool = leaves;
    for (int i = 0; i < 8; ++i) {
      const at::Tensor &a = any(pool), &b = any(pool);
      const std::vector<std::function<at::Tensor()>> operators{[&] { return a * b; }, [&] { return a + b.tanh(); },
                                                               [&] { return a.matmul(b); }, [&] { return a.exp().t(); },
                                                               [&] { return (a - b).sum(0, true) * b; }};
      pool.push_back((operators[pick(operators.size())]() * 0.3).tanh());
      hook_tensor(pool.back());
    }
    return pool.back().sum() + any(pool).mean();
  }

 private:
  size_t pick(size_t count) { return std::uniform_int_distribution<size_t>(0, count - 1)(random_); }
  const at::Tensor& any(const Tensors& pool) { return pool[pick(pool.size())]; }
  auto see(const std::string& who) {
    return [this, name = who + std::to_string(count_++)](const at::Tensor& t) {
      diary_.emplace_back(name, t.detach().clone());
    };
  }

  void hook_tensor(const at::Tensor& tensor) {
    const auto node = tensor.grad_fn();
    switch (pick(7)) {
      case 0:
        tensor.register_hook([look = see("tensor")](const at::Tensor& g) {
          look(g);
          return g * 0.5;
        });
        break;
      case 1:
        tensor.register_hook([look = see("silent")](const at::Tensor& g) { look(g); });
        break;
      case 2:
        tensor.retain_grad();
        retained_.push_back(tensor);
        break;
      case 3:
        node->add_pre_hook(std::make_unique<PreHook>(see("pre")));
        break;
      case 4:
        node->add_post_hook(std::make_unique<ag::utils::LambdaPostHook>(
            [look = see("post")](const ag::variable_list& outputs, const ag::variable_list& inputs) {
              look(inputs[0]);
              ag::variable_list changed;
              for (const at::Tensor& output : outputs) changed.push_back(output.defined() ? output * 0.9 : output);
              return changed;
            }));
        break;
      default:
        break;
    }
  }

  void hook_leaf(const at::Tensor& leaf) {
    if (pick(2) == 0) {
      leaf.register_hook([look = see("leaf")](const at::Tensor& g) {
        look(g);
        return g + 1;
      });
    }
    if (pick(2) == 0) {
      ag::impl::set_post_acc_grad_hooks(leaf, std::make_unique<AfterAccumulation>(see("accumulated")));
    }
  }

 public:
  Tensors retained_;

 private:
  std::mt19937_64 random_;
  Diary& diary_;
  size_t count_ = 0;
};

struct Outcome {
  Diary diary;
  Tensors gradients;
};

Outcome run(uint64_t seed, bool captured) {
  Outcome outcome;
  torch::manual_seed(static_cast<int64_t>(seed));
  const Tensors leaves{torch::randn({3, 3}, torch::kFloat64).requires_grad_(),
                       torch::randn({3, 3}, torch::kFloat64).requires_grad_()};
  Program program(seed, outcome.diary);
  const at::Tensor loss = program.loss(leaves);
  std::optional<BackwardCapture> capture;
  if (captured) capture.emplace();
  loss.backward();
  outcome.gradients = {leaves[0].grad(), leaves[1].grad()};
  for (const at::Tensor& tensor : program.retained_) outcome.gradients.push_back(tensor.grad());
  return outcome;
}

TEST(BackwardHooks, RandomOnesDoAsInEager) {
  size_t seen = 0;
  for (uint64_t seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(seed);
    backward_capture::reset();
    const Outcome expected = run(seed, false);
    for (int pass = 0; pass < 2; ++pass) {
      const Outcome got = run(seed, true);
      ASSERT_EQ(got.diary.size(), expected.diary.size());
      for (size_t i = 0; i < got.diary.size(); ++i) {
        EXPECT_EQ(got.diary[i].first, expected.diary[i].first);
        EXPECT_TRUE(torch::allclose(got.diary[i].second, expected.diary[i].second)) << got.diary[i].first;
      }
      EXPECT_TRUE(same_tensors(got.gradients, expected.gradients, kClose));
    }
    seen += expected.diary.size();
    EXPECT_EQ(backward_capture::statistics().captures, 1);
    EXPECT_EQ(backward_capture::statistics().hits, 1);
    if (HasFailure()) return;
  }
  EXPECT_GT(seen, 300);
}

TEST(BackwardHooks, NestedBackwardsInsideOne) {
  const auto nested = [](bool captured) {
    const at::Tensor x = torch::ones({2}, torch::kFloat64).requires_grad_(),
                     w = torch::ones({2}, torch::kFloat64).requires_grad_();
    const at::Tensor y = x * 3;
    y.register_hook([&](const at::Tensor& g) {
      const at::AutoGradMode grad_mode(true);
      (w.exp() * g.detach()).sum().backward();
      return g * w.grad();
    });
    std::optional<BackwardCapture> capture;
    if (captured) capture.emplace();
    y.square().sum().backward();
    return Tensors{x.grad(), w.grad()};
  };
  const Tensors expected = nested(false);
  for (int pass = 0; pass < 2; ++pass) {
    const Tensors got = nested(true);
    EXPECT_TRUE(same_tensors(got, expected, kClose));
  }
}

TEST(BackwardHooks, AnExceptionLeavesWhatEagerLeaves) {
  const auto failing = [](bool captured) {
    const at::Tensor x = torch::ones({2}).requires_grad_(), w = torch::ones({2}).requires_grad_();
    const at::Tensor y = x * 3, z = (y * w).exp();
    bool fails = true;
    y.register_hook([&](const at::Tensor& g) -> at::Tensor {
      if (fails) throw std::runtime_error("the hook's own words");
      return g;
    });
    std::optional<BackwardCapture> capture;
    if (captured) capture.emplace();
    std::string words;
    try {
      z.sum().backward();
    } catch (const std::runtime_error& error) {
      words = error.what();
    }
    EXPECT_EQ(words, "the hook's own words");
    const bool accumulated = w.grad().defined();
    fails = false;
    EXPECT_THROW(z.sum().backward(), c10::Error) << "what has run is released";
    capture.reset();
    const at::Tensor other = torch::ones({2}).requires_grad_();
    (other * 2).sum().backward();
    EXPECT_TRUE(other.grad().equal(torch::full({2}, 2.0)));
    return std::pair{accumulated, x.grad().defined()};
  };
  EXPECT_EQ(failing(true), failing(false));
}

TEST(BackwardHooks, ThatGiveNothingLeaveGradientsUndefined) {
  struct Nothing final : ag::FunctionPreHook {
    ag::variable_list operator()(const ag::variable_list& gradients) override {
      return ag::variable_list(gradients.size());
    }
  };
  const auto cut = [](bool captured) {
    const at::Tensor x = torch::ones({2}).requires_grad_(), w = torch::ones({2}).requires_grad_();
    const at::Tensor y = x * 3;
    y.grad_fn()->add_pre_hook(std::make_unique<Nothing>());
    const at::Tensor loss = (y * w).sum();
    std::optional<BackwardCapture> capture;
    if (captured) capture.emplace();
    loss.backward();
    return std::pair{x.grad().defined(), w.grad().defined()};
  };
  EXPECT_EQ(cut(true), cut(false));
  EXPECT_EQ(cut(true), (std::pair{false, true}));
}

TEST(BackwardHooks, ThatChangeTheLayoutAreFollowed) {
  const auto transposing = [](bool captured) {
    const at::Tensor x = torch::arange(6, torch::kFloat64).view({2, 3}).requires_grad_();
    const at::Tensor y = x * 2;
    y.register_hook([](const at::Tensor& g) { return (g.t().contiguous() * 3).t(); });
    const at::Tensor loss = (y.view({6}) * torch::arange(6)).sum() + x.sum();
    std::optional<BackwardCapture> capture;
    if (captured) capture.emplace();
    loss.backward();
    return x.grad();
  };
  const at::Tensor expected = transposing(false);
  for (int pass = 0; pass < 2; ++pass) EXPECT_TRUE(transposing(true).equal(expected));
}

TEST(BackwardHooks, ThatChangeTheSizesAreRefusedByName) {
  const at::Tensor x = torch::ones({2}).requires_grad_();
  const at::Tensor y = x.exp();
  struct Shorter final : ag::FunctionPreHook {
    ag::variable_list operator()(const ag::variable_list& gradients) override { return {gradients[0].narrow(0, 0, 1)}; }
  };
  y.grad_fn()->add_pre_hook(std::make_unique<Shorter>());
  const at::Tensor loss = y.sum();
  const BackwardCapture capture;
  try {
    loss.backward();
    FAIL() << "the sizes changed";
  } catch (const std::exception& error) {
    EXPECT_NE(std::string(error.what()).find("[backward] a hook of ExpBackward0 got a gradient of sizes [2]"),
              std::string::npos)
        << error.what();
  }
}

at::Tensor clamped(const at::Tensor& g) { return g.clamp(-0.2, 0.2); }

// What a pass with hooks of register_hook() leaves in its leaves: on a result, on a leaf, and two on one tensor.
Tensors pass_with_computing_hooks(const at::Tensor& mask) {
  torch::manual_seed(1);
  const at::Tensor x = torch::randn({3, 4}, torch::kFloat64).requires_grad_();
  const at::Tensor w = torch::randn({4}, torch::kFloat64).requires_grad_();
  const at::Tensor y = (x * w).sin(), parts = y.split(2, 1)[1];
  register_hook(y, [](const at::Tensor& g) { return clamped(g); });
  register_hook(
      w, [](const at::Tensor& g, const at::Tensor& m) { return g * m; }, mask);
  register_hook(
      w, [](const at::Tensor& g, const at::Tensor& m, const at::Tensor& n) { return g + m * n; }, mask, mask);
  register_hook(parts, [](const at::Tensor& g) { return g / (g.norm() + 1); });
  (y.square().sum() + parts.exp().sum()).backward();
  return {x.grad(), w.grad()};
}

TEST(BackwardHooks, HooksThatComputeAreNodes) {
  const at::Tensor mask = torch::rand({4}, torch::kFloat64), other = mask + 1;
  const Tensors expected = pass_with_computing_hooks(mask), of_other = pass_with_computing_hooks(other);
  for (const std::string& backend : backend_names()) {
    const BackwardCapture capture({.backend = backend});
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(same_tensors(pass_with_computing_hooks(mask), expected, kClose));
    EXPECT_EQ(backward_capture::last_graph().code().find("stage=0"), std::string::npos) << "no hook runs live";
    EXPECT_TRUE(same_tensors(pass_with_computing_hooks(other), of_other, kClose));
    EXPECT_EQ(capture.stats().captures, 2) << "the second for the other mask";
    EXPECT_EQ(capture.stats().hits, 2);
  }
}

TEST(BackwardHooks, HooksThatDoNotComputeSaySo) {
  const at::Tensor x = torch::ones({2}).requires_grad_();
  expect_error([] { register_hook(torch::ones({2}), [](const at::Tensor& g) { return g; }); }, "requires grad");
  const auto fails = [&](auto hook) {
    const at::Tensor y = x * 2;
    register_hook(y, hook);
    y.square().sum().backward();
  };
  for (const bool captured : {false, true}) {
    std::optional<BackwardCapture> capture;
    if (captured) capture.emplace();
    expect_error([&] { fails([](const at::Tensor& g) { return g.sum(); }); },
                 "[register_hook] the hook got a gradient of");
    expect_error([&] { fails([](const at::Tensor& g) { return g.mul_(2); }); },
                 "[register_hook] the hook writes to the");
    x.mutable_grad().reset();
    fails([](const at::Tensor& g) { return g.sum().item<float>() > 0 ? g * 3 : g; });
    EXPECT_TRUE(x.grad().equal(torch::full({2}, 24.0))) << "a hook that asks for values is called";
  }
}

TEST(BackwardHooks, FinalCallbacksRunAtTheEnd) {
  const auto order = [](bool captured) {
    std::vector<std::string> seen;
    const at::Tensor x = torch::ones({2}).requires_grad_();
    const at::Tensor y = x * 3;
    y.register_hook([&](const at::Tensor& g) {
      ag::Engine::get_default_engine().queue_callback([&] { seen.push_back(x.grad().defined() ? "end" : "early"); });
      seen.push_back("hook");
      return g;
    });
    std::optional<BackwardCapture> capture;
    if (captured) capture.emplace();
    y.sum().backward();
    return seen;
  };
  EXPECT_EQ(order(true), order(false));
}

TEST(BackwardHooks, AnomalyModeIsRespected) {
  const at::Tensor x = torch::zeros({2}).requires_grad_();
  const torch::autograd::DetectAnomalyGuard anomaly;
  const at::Tensor loss = (x / x).sum();
  const BackwardCapture capture;
  try {
    loss.backward();
    FAIL() << "the gradients are not numbers";
  } catch (const c10::Error& error) {
    EXPECT_NE(std::string(error.what()).find("returned nan values"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace diptych::testing
