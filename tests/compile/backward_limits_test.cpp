// What a captured backward hands back to the engine, or runs as the engine would: backwards inside backwards, sparse
// gradients, warnings, tensors that mean more than their sizes. And what each guard counts.
#include <ATen/ops/embedding.h>
#include <gtest/gtest.h>
#include <torch/autograd.h>
#include <torch/csrc/autograd/forward_grad.h>
#include <torch/types.h>

#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "diptych/backward/backward_capture.h"
#include "diptych/base/error.h"
#include "diptych/compile/aot.h"
#include "testing/tensors.h"

namespace diptych::testing {
namespace {

namespace ag = torch::autograd;

void expect_as_eager_each_time(const std::function<at::Tensor()>& gradient) {
  const at::Tensor expected = gradient();
  const BackwardCapture capture;
  for (int pass = 0; pass < 3; ++pass) {
    const at::Tensor got = gradient();
    EXPECT_EQ(got.layout(), expected.layout());
    EXPECT_TRUE(at::allclose(got.to_dense().resolve_conj(), expected.to_dense().resolve_conj())) << got << expected;
  }
}

/// Its backward runs the backward of another one, as deep as its argument says.
struct Deep : ag::Function<Deep> {
  static at::Tensor forward(ag::AutogradContext* context, at::Tensor x) {
    const at::AutoGradMode mode(true);
    context->saved_data["x"] = x.detach().requires_grad_() - 1;
    return context->saved_data["x"].toTensor().detach();
  }
  static Tensors backward(ag::AutogradContext* context, Tensors gradients) {
    const at::Tensor x = context->saved_data["x"].toTensor();
    if (x.item<float>() > 0) {
      const at::AutoGradMode mode(true);
      Deep::apply(x).sum().backward();
    }
    return {gradients[0] * 2};
  }
};

TEST(BackwardLimits, BackwardsInsideBackwardsAsDeepAsInEager) {
  for (const float depth : {3.0F, 50.0F, 8193.0F}) {
    const BackwardCapture capture;
    for (int pass = 0; pass < 2; ++pass) {
      const at::Tensor x = torch::tensor({depth}).requires_grad_();
      Deep::apply(x).sum().backward();
      EXPECT_TRUE(x.grad().equal(torch::tensor({2.0F})));
    }
    EXPECT_GT(capture.stats().hits, 0);
    EXPECT_EQ(capture.stats().eager_by_reason.count("backward runs are nested too deeply"), depth > 8 ? 1 : 0);
  }
}

TEST(BackwardLimits, DeepOnesOnAllThreads) {
  backward_capture::enable();
  const at::Tensor x = torch::tensor({300.0F}).requires_grad_();
  Deep::apply(x).sum().backward();
  backward_capture::disable();
  EXPECT_TRUE(x.grad().equal(torch::tensor({2.0F})));
}

TEST(BackwardLimits, SparseGradientsBesideDenseOnes) {
  const auto rows = torch::tensor({1, 3, 1});
  const auto sparse = [&](const at::Tensor& weight) {
    return at::embedding(weight, rows, -1, false, /*sparse=*/true).square().sum();
  };
  const auto dense = [](const at::Tensor& weight) { return (weight * 3).sum(); };
  using Loss = std::function<at::Tensor(const at::Tensor&)>;
  const std::vector<std::pair<Loss, Loss>> orders{{sparse, dense}, {dense, sparse}, {sparse, sparse}};
  for (const auto& [first, second] : orders) {
    for (const bool through_product : {false, true}) {
      expect_as_eager_each_time([&] {
        const at::Tensor weight = torch::arange(10, torch::kFloat64).view({5, 2}).requires_grad_();
        const at::Tensor used = through_product ? weight * 2 : weight;
        (first(used) + second(used)).backward();
        return weight.grad();
      });
    }
  }
}

TEST(BackwardLimits, ACompiledFunctionNamesTheRemedyForASparseGradient) {
  const auto rows = torch::tensor({1, 3, 1});
  const auto f = aot_function(
      [&](const at::Tensor& weight) { return at::embedding(weight, rows, -1, false, /*sparse=*/true).square().sum(); },
      {.path_limit = 0});
  try {
    f(torch::ones({5, 2}).requires_grad_()).backward();
    FAIL() << "a graph holds a sparse tensor";
  } catch (const UserError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("returns a sparse tensor, as the gradient of an embedding"), std::string::npos) << text;
    EXPECT_NE(text.find("pass sparse=False"), std::string::npos) << text;
  }
}

TEST(BackwardLimits, TensorsThatAreConjugatedLazily) {
  expect_as_eager_each_time([] {
    const at::Tensor x = torch::ones({3}, torch::kComplexDouble).mul(c10::complex<double>(1, 2)).requires_grad_();
    const at::Tensor y = torch::full({3}, c10::complex<double>(0, 1), torch::kComplexDouble).conj();
    at::view_as_real((x * y).resolve_conj()).square().sum().backward();
    return x.grad();
  });
}

TEST(BackwardLimits, ForwardModeRunsInEager) {
  const auto tangent = [] {
    const uint64_t level = ag::ForwardADLevel::get_next_idx();
    const at::Tensor x = torch::arange(1, 4, torch::kFloat64).requires_grad_();
    const at::Tensor dual = x.view({3});
    dual._set_fw_grad(torch::ones({3}, torch::kFloat64), level, false);
    const at::Tensor found = ag::grad({dual.pow(3).sum()}, {dual})[0];
    const at::Tensor result = found._fw_grad(level).clone();
    ag::ForwardADLevel::release_idx(level);
    return result;
  };
  const at::Tensor expected = tangent();
  const BackwardCapture capture;
  for (int pass = 0; pass < 2; ++pass) EXPECT_TRUE(tangent().equal(expected));
  EXPECT_EQ(capture.stats().eager_by_reason.at("forward-mode differentiation"), 2);
}

/// What is warned of while one lives.
class Warnings final : public c10::WarningHandler {
 public:
  void process(const c10::Warning& warning) override { seen.push_back(warning.msg()); }
  std::vector<std::string> seen;
};

// A node of ours that warns, and one of LibTorch's own that is replayed.
struct Warning : ag::Function<Warning> {
  static constexpr bool is_traceable = true;
  static at::Tensor forward(ag::AutogradContext* /*context*/, at::Tensor x) { return x * 2; }
  static Tensors backward(ag::AutogradContext* /*context*/, Tensors gradients) {
    TORCH_WARN("from a backward");
    return {gradients[0] * 2};
  }
};

TEST(BackwardLimits, WhatNodesWarnOfComesEachTime) {
  const auto warned = [] {
    Warnings warnings;
    const at::Tensor x = torch::ones({2}).requires_grad_();
    const at::Tensor loss = Warning::apply(x).sum();
    const c10::WarningUtils::WarningHandlerGuard listening(&warnings);
    loss.backward();
    EXPECT_TRUE(x.grad().equal(torch::full({2}, 2.0F)));
    return warnings.seen;
  };
  const std::vector<std::string> expected{"from a backward"};
  EXPECT_EQ(warned(), expected);
  const BackwardCapture capture;
  for (int pass = 0; pass < 3; ++pass) EXPECT_EQ(warned(), expected) << pass;
  EXPECT_EQ(capture.stats().hits, 2);
}

TEST(BackwardLimits, WhatTheEngineKeepsOfWarningsIsHandedOn) {
  Warnings warnings;
  const at::Tensor x = torch::ones({2}).requires_grad_();
  const at::Tensor loss = Warning::apply(x).sum();
  const c10::WarningUtils::WarningHandlerGuard listening(&warnings);
  const BackwardCapture elsewhere;
  std::thread([&] {
    const c10::WarningUtils::WarningHandlerGuard of_the_thread(&warnings);
    loss.backward();  // in eager: the guard is another thread's
  }).join();
  EXPECT_EQ(warnings.seen, std::vector<std::string>{"from a backward"});
}

TEST(BackwardLimits, EachGuardCountsItsOwnPasses) {
  backward_capture::reset();
  const auto step = [] {
    const at::Tensor x = torch::ones({2}).requires_grad_();
    x.cos().sum().backward();
  };
  const BackwardCapture outer;
  step();
  std::optional<BackwardCapture> inner(std::in_place);
  step();
  std::thread([&] {
    const BackwardCapture other;
    step();
    EXPECT_EQ(other.stats().hits, 1);
    EXPECT_EQ(other.stats().captures, 0);
  }).join();
  EXPECT_EQ(inner->stats().hits, 1);
  EXPECT_EQ(inner->stats().misses.size(), 0);
  inner.reset();
  step();
  EXPECT_EQ(outer.stats().captures, 1);
  EXPECT_EQ(outer.stats().hits, 2);
  EXPECT_EQ(outer.stats().misses, std::vector<std::string>{"the first backward"});
  EXPECT_EQ(backward_capture::statistics().hits, 3);
}

TEST(BackwardLimits, GuardsMayGoInAnotherOrderThanTheyCame) {
  auto first = std::make_unique<BackwardCapture>(), second = std::make_unique<BackwardCapture>();
  first.reset();
  const at::Tensor x = torch::ones({2}).requires_grad_();
  (x * 5).sum().backward();
  EXPECT_EQ(second->stats().captures + second->stats().hits, 1);
}

}  // namespace
}  // namespace diptych::testing
