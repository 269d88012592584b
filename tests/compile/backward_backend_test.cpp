// Captured backwards by a backend: what is computed is XLA's, what runs live is eager's, and graphs are not confused.
#include <gtest/gtest.h>
#include <torch/autograd.h>
#include <torch/nn.h>
#include <torch/types.h>

#include "compile/backward_pass.h"
#include "compile/step_check.h"
#include "diptych/backward/backward_capture.h"
#include "diptych/base/switches.h"
#include "diptych/diptych.h"
#include "testing/same_tensors.h"

namespace diptych::testing {
namespace {

constexpr Likeness kOfOneLayout{.rtol = 1e-10, .atol = 1e-10, .strides = true};
const backward_capture::Options kXla{.backend = "xla"};

/// Collects the names of the programs that XLA compiles while it lives.
class Programs {
 public:
  Programs() {
    set_log("graphs");
    set_log_sink([this](std::string_view line) {
      if (line.find("xla: graph '") != std::string_view::npos) ++count_;
    });
  }
  ~Programs() {
    set_log_sink({});
    set_log("");
  }
  size_t count() const { return count_; }

 private:
  size_t count_ = 0;
};

/// Starts with no graphs.
class BackwardBackend : public ::testing::Test {
 protected:
  void SetUp() override { backward_capture::reset(); }
};

// Returns how many programs it took.
size_t expect_by_xla_as_eager(const Loss& loss, const Tensors& inputs, size_t passes = 3) {
  const Tensors expected = gradients_of(loss, inputs);
  const Programs programs;
  const BackwardCapture capture(kXla);
  for (size_t pass = 0; pass < passes; ++pass) {
    EXPECT_TRUE(same_tensors(gradients_of(loss, inputs), expected, kOfOneLayout)) << "pass " << pass;
  }
  EXPECT_EQ(capture.stats().captures, 1) << (capture.stats().misses.empty() ? "" : capture.stats().misses.back());
  EXPECT_EQ(capture.stats().hits, passes - 1);
  EXPECT_EQ(capture.stats().eager, 0);
  return programs.count();
}

TEST_F(BackwardBackend, OneProgramWhereNoCodeRunsOnTheWay) {
  torch::manual_seed(1);
  torch::nn::Sequential model(torch::nn::Linear(3, 4), torch::nn::Tanh(), torch::nn::Linear(4, 4), torch::nn::GELU(),
                              torch::nn::LayerNorm(torch::nn::LayerNormOptions({4})), torch::nn::Linear(4, 2));
  model->to(torch::kFloat64);
  const at::Tensor x = torch::randn({5, 3}, torch::kFloat64);
  const Tensors parameters = model->parameters();
  EXPECT_EQ(expect_by_xla_as_eager([&](const Tensors&) { return model->forward(x).square().mean(); }, parameters), 1);
}

TEST_F(BackwardBackend, LossesOfManyKinds) {
  const std::vector<std::pair<const char*, Loss>> losses{
      {"pointwise", [](const Tensors& t) { return (t[0] * t[0].tanh() + t[0].exp()).sum(); }},
      {"a gradient without elements of its own", [](const Tensors& t) { return t[0].sum() + t[1].mean(); }},
      {"views",
       [](const Tensors& t) { return (t[0].t().reshape({-1}).narrow(0, 2, 5) * 3).sum() + t[0].select(1, 0).sum(); }},
      {"in place on a view",
       [](const Tensors& t) {
         const at::Tensor x = t[0].clone();
         x.narrow(0, 0, 2).mul_(t[0].narrow(0, 1, 2));
         return (x * x).sum();
       }},
      {"dropout", [](const Tensors& t) { return (torch::dropout(t[0], 0.5, true) * t[0]).sum(); }},
      {"an operator without a lowering", [](const Tensors& t) { return t[0].mm(t[1]).inverse().exp().sum(); }},
      {"a scan", [](const Tensors& t) {
         const auto step = [&](const at::Tensor& h, const at::Tensor& x) {
           const at::Tensor next = torch::tanh(h * x);
           return std::pair{next, next};
         };
         return scan(step, t[0][0].detach(), t[0]).second.sum();
       }}};
  for (const auto& [name, loss] : losses) {
    SCOPED_TRACE(name);
    backward_capture::reset();
    expect_by_xla_as_eager(loss, leaves({{3, 4}, {4, 3}}));
  }
}

TEST_F(BackwardBackend, HooksRunBetweenPrograms) {
  std::vector<double> seen;
  const Loss loss = [&](const Tensors& t) {
    const at::Tensor y = t[0].exp();
    y.register_hook([&](const at::Tensor& gradient) {
      seen.push_back(gradient.sum().item<double>());
      return gradient * 2;
    });
    return (y * t[1].t()).sin().sum();
  };
  EXPECT_EQ(expect_by_xla_as_eager(loss, leaves({{3, 4}, {4, 3}})), 2);
  ASSERT_EQ(seen.size(), 4);
  for (const double sum : seen) EXPECT_NEAR(sum, seen[0], 1e-12);
}

// A view that crosses a hook is one of the memory that the hook writes to.
TEST_F(BackwardBackend, HooksMayWriteToGradientsThatOthersView) {
  const Loss loss = [](const Tensors& t) {
    const at::Tensor y = t[0] * 3, z = y.t();
    y.register_hook([](const at::Tensor& gradient) { gradient.detach().mul_(5); });
    const at::Tensor flat = z.reshape({-1}).exp() * 2;
    flat.register_hook([](const at::Tensor& gradient) { gradient.detach().add_(1); });
    return (flat * flat).sum() + (z * z).sum();
  };
  expect_by_xla_as_eager(loss, leaves({{3, 4}}));
}

struct Noise : torch::autograd::Function<Noise> {
  static constexpr bool is_traceable = true;
  static at::Tensor forward(torch::autograd::AutogradContext* /*context*/, at::Tensor x) { return x * 2; }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* /*context*/,
                                                 torch::autograd::variable_list gradients) {
    return {gradients[0] * torch::rand_like(gradients[0])};
  }
};

TEST_F(BackwardBackend, DrawsAreEagersAlsoRoundHooksThatDraw) {
  const Loss loss = [](const Tensors& t) {
    const at::Tensor y = Noise::apply(t[0]);
    y.register_hook([](const at::Tensor& gradient) { return gradient + torch::rand_like(gradient); });
    return Noise::apply(Noise::apply(y)).sum();
  };
  expect_by_xla_as_eager(loss, leaves({{3, 4}}));
}

TEST_F(BackwardBackend, AccumulatesInPlaceAndStopsWithTheGraph) {
  const Tensors t = leaves({{3, 3}});
  t[0].mutable_grad() = torch::ones({3, 3}, torch::kFloat64);
  const at::Tensor before = t[0].grad();
  const BackwardCapture capture(kXla);
  const at::Tensor kept = (t[0] * t[0]).sum();
  kept.backward({}, /*retain_graph=*/true);
  kept.backward();
  EXPECT_TRUE(t[0].grad().is_same(before)) << "in place";
  EXPECT_TRUE(torch::allclose(before, 1 + 4 * t[0]));
  EXPECT_THROW(kept.backward(), c10::Error);
}

// A hook that runs after an accumulation finds it done.
TEST_F(BackwardBackend, AccumulationsComeBeforeTheNextHook) {
  std::vector<bool> was_there;
  const Tensors t = leaves({{3}, {3}});
  const Loss loss = [&](const Tensors& x) {
    const at::Tensor y = x[0].exp();
    y.register_hook([&](const at::Tensor&) { was_there.push_back(x[1].grad().defined()); });
    return (y * y).sum() + (x[1] * y.detach()).sum();
  };
  gradients_of(loss, t);
  const std::vector<bool> expected = was_there;
  was_there.clear();
  const BackwardCapture capture(kXla);
  gradients_of(loss, t);
  EXPECT_EQ(was_there, expected);
}

TEST_F(BackwardBackend, SparseGradientsThroughWhatIsComputed) {
  const Loss loss = [](const Tensors& t) {
    const at::Tensor rows = torch::tensor({1, 3, 1});
    return torch::embedding(t[0] * 2, rows, -1, false, /*sparse=*/true).square().sum();
  };
  const Tensors weight = leaves({{5, 2}});
  expect_by_xla_as_eager(loss, weight);
}

TEST_F(BackwardBackend, HigherOrdersAndUnusedInputs) {
  const Tensors t = leaves({{3}, {3}, {3}});
  const auto third = [&] {
    const at::Tensor y = ((t[0] * t[1]).tanh() * t[0].exp()).sum();
    const Tensors used{t[0], t[1]};
    const auto first = torch::autograd::grad({y}, used, {}, true, true);
    const auto second = torch::autograd::grad({first[0].square().sum() + first[1].sum()}, used, {}, true, true);
    auto last = torch::autograd::grad({second[0].sum() * second[1].sum()}, t, {}, {}, false, /*allow_unused=*/true);
    return Tensors{first[0].detach(), second[0].detach(), last[0], last[1], last[2]};
  };
  const Tensors expected = third();
  const Programs programs;
  const BackwardCapture capture(kXla);
  for (int pass = 0; pass < 2; ++pass) EXPECT_TRUE(same_tensors(third(), expected, kOfOneLayout));
  EXPECT_EQ(programs.count(), 1) << "the two that record gradients are the interpreter's";
}

TEST_F(BackwardBackend, SizesThatChangeAreCapturedTwice) {
  const Tensors t = leaves({{3, 4}});
  const BackwardCapture capture(kXla);
  for (const int64_t size : {4, 6, 5, 9, 6}) {
    const at::Tensor x = torch::randn({size, 3}, torch::kFloat64);
    t[0].mutable_grad().reset();
    x.mm(t[0]).tanh().mean().backward();
    const at::Tensor found = t[0].grad();
    at::Tensor expected;
    std::thread([&] { expected = torch::autograd::grad({x.mm(t[0]).tanh().mean()}, {t[0]})[0]; }).join();
    EXPECT_TRUE(same_tensor(found, expected, kOfOneLayout)) << size;
  }
  EXPECT_EQ(capture.stats().captures, 2);
  EXPECT_EQ(capture.stats().hits, 3);
}

TEST_F(BackwardBackend, TwoInOneProcessHaveGraphsOfTheirOwn) {
  const Tensors t = leaves({{3}});
  const Loss loss = [](const Tensors& x) { return x[0].exp().sum(); };
  const Tensors expected = gradients_of(loss, t);
  const auto programs_of_pass = [&] {
    const Programs programs;
    EXPECT_TRUE(same_tensors(gradients_of(loss, t), expected, kOfOneLayout));
    return programs.count();
  };
  const BackwardCapture outer;
  EXPECT_EQ(programs_of_pass(), 0);
  {
    const BackwardCapture inner(kXla);
    EXPECT_EQ(programs_of_pass(), 1);
    EXPECT_EQ(programs_of_pass(), 0) << "a hit";
    const BackwardCapture innermost;
    EXPECT_EQ(programs_of_pass(), 0);
    EXPECT_EQ(innermost.stats().hits, 1);
  }
  EXPECT_EQ(programs_of_pass(), 0);
  EXPECT_EQ(outer.stats().captures, 2);
  EXPECT_EQ(outer.stats().misses_by_reason.at("other backend"), 1);
  EXPECT_EQ(outer.stats().misses[1], "backend " + default_backend() + " changed to xla");
}

TEST_F(BackwardBackend, EnabledForAllThreadsAndChanged) {
  const Tensors t = leaves({{3}});
  const Loss loss = [](const Tensors& x) { return x[0].exp().sum(); };
  const auto programs_of_pass = [&] {
    const Programs programs;
    std::thread([&] { gradients_of(loss, t); }).join();
    return programs.count();
  };
  backward_capture::enable(kXla);
  EXPECT_EQ(programs_of_pass(), 1);
  {
    const BackwardCapture guard;
    gradients_of(loss, t);
    EXPECT_EQ(guard.stats().captures, 1) << "the guard's backend, on its thread";
  }
  backward_capture::enable();
  EXPECT_EQ(programs_of_pass(), 0);
  EXPECT_EQ(backward_capture::statistics().hits, 1);
  backward_capture::disable();
  EXPECT_EQ(programs_of_pass(), 0);
  EXPECT_EQ(backward_capture::statistics().captures, 2);
}

TEST_F(BackwardBackend, StepsLikeEager) {
  const Programs programs;
  expect_like_eager(layer(), adamw, loss_of, {.max_gradient_norm = 0.5, .backend = "xla"}, 1e-5);
  EXPECT_EQ(programs.count(), 1);
}

TEST_F(BackwardBackend, UnknownNamesAreRefused) {
  const auto message_of = [](const auto& call) -> std::string {
    try {
      call();
    } catch (const UserError& error) {
      return error.what();
    }
    return "nothing was thrown";
  };
  const std::string expected = "[backend] got 'cuda', expected one of: interpreter, xla, native";
  EXPECT_EQ(message_of([] { const BackwardCapture capture({.backend = "cuda"}); }), expected);
  EXPECT_EQ(message_of([] { backward_capture::enable({.backend = "cuda"}); }), expected);
  const auto optimizer = adamw(layer());
  EXPECT_EQ(message_of([&] { capture_step(*optimizer, {.backend = "cuda"}); }), expected);
}

}  // namespace
}  // namespace diptych::testing
