// Captured backwards from several threads at once. `make threads` runs these under the thread sanitizer.
#include <gtest/gtest.h>
#include <torch/autograd.h>
#include <torch/types.h>

#include <atomic>
#include <thread>

#include "diptych/diptych.h"
#include "testing/tensors.h"

namespace diptych::testing {
namespace {

constexpr int kThreads = 4;
constexpr int kRounds = 25;

// Runs `body(thread)` on each thread; an exception of one is the test's.
void on_threads(const std::function<void(int)>& body) {
  std::vector<std::exception_ptr> errors(kThreads);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      try {
        body(i);
      } catch (...) {
        errors[i] = std::current_exception();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  for (const auto& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

struct BackwardThreads : ::testing::Test {
  BackwardThreads() {
    torch::manual_seed(4);
    weights = {torch::randn({3, 5}, torch::kFloat64).requires_grad_(),
               torch::randn({5}, torch::kFloat64).requires_grad_()};
    backward_capture::reset();
  }
  at::Tensor loss(const at::Tensor& x) const { return at::tanh(at::addmm(weights[1], x, weights[0])).square().sum(); }
  static at::Tensor input(int64_t rows, int number) {
    return torch::arange(rows * 3, torch::kFloat64).view({rows, 3}).mul(0.01 * (number + 1)).sin();
  }

  Tensors weights;
};

TEST_F(BackwardThreads, OnePassFromAll) {
  const BackwardCapture installed;
  on_threads([&](int thread) {
    const BackwardCapture guard;
    for (int round = 0; round < kRounds; ++round) {
      const at::Tensor x = input(4, thread * kRounds + round);
      const auto got = torch::autograd::grad({loss(x)}, weights);
      const at::Tensor y = at::tanh(at::addmm(weights[1], x, weights[0])).detach();
      const at::Tensor inner = 2 * y * (1 - y * y);
      EXPECT_TRUE(at::allclose(got[0], x.t().matmul(inner)));
      EXPECT_TRUE(at::allclose(got[1], inner.sum(0)));
    }
  });
  const auto statistics = backward_capture::statistics();
  EXPECT_EQ(statistics.captures, 1U);
  EXPECT_EQ(statistics.hits, size_t{kThreads * kRounds - 1});
  EXPECT_EQ(statistics.eager, 0U);
}

TEST_F(BackwardThreads, SomeCaptureAndSomeDoNot) {
  const BackwardCapture installed;
  on_threads([&](int thread) {
    std::optional<BackwardCapture> guard;
    if (thread % 2 == 0) guard.emplace();
    for (int round = 0; round < kRounds; ++round) {
      const auto got = torch::autograd::grad({loss(input(4, round))}, weights);
      EXPECT_EQ(got[0].sizes(), weights[0].sizes());
    }
  });
  EXPECT_EQ(backward_capture::statistics().hits, size_t{kThreads / 2 * kRounds - 1});
}

TEST_F(BackwardThreads, GradientsOfSharedLeavesAddUp) {
  const BackwardCapture installed;
  on_threads([&](int thread) {
    const BackwardCapture guard;
    for (int round = 0; round < kRounds; ++round) loss(input(4, thread)).backward();
  });
  Tensors sums{torch::zeros_like(weights[0]), torch::zeros_like(weights[1])};
  for (int thread = 0; thread < kThreads; ++thread) {
    const auto each = torch::autograd::grad({loss(input(4, thread))}, weights);
    for (size_t i = 0; i < sums.size(); ++i) sums[i] += kRounds * each[i];
  }
  for (size_t i = 0; i < sums.size(); ++i) EXPECT_TRUE(at::allclose(weights[i].grad(), sums[i]));
}

TEST_F(BackwardThreads, SizesBecomeDynamicInOneOfThem) {
  const BackwardCapture installed;
  on_threads([&](int thread) {
    const BackwardCapture guard;
    for (int round = 0; round < kRounds; ++round) {
      const at::Tensor x = input(2 + (thread * 7 + round * 3) % 11, round);
      const auto got = torch::autograd::grad({loss(x)}, weights);
      const at::Tensor y = at::tanh(at::addmm(weights[1], x, weights[0])).detach();
      EXPECT_TRUE(at::allclose(got[1], (2 * y * (1 - y * y)).sum(0)));
    }
  });
  EXPECT_LE(backward_capture::statistics().captures, 3U);
}

TEST_F(BackwardThreads, CompiledFunctionsInsideThem) {
  const auto aot = aot_function(
      [](const at::Tensor& x, const at::Tensor& w, const at::Tensor& b) { return at::tanh(at::addmm(b, x, w)); });
  const BackwardCapture installed;
  on_threads([&](int thread) {
    const BackwardCapture guard;
    for (int round = 0; round < kRounds; ++round) {
      const at::Tensor x = input(4, thread);
      const auto got = torch::autograd::grad({aot(x, weights[0], weights[1]).square().sum()}, weights);
      const at::Tensor y = at::tanh(at::addmm(weights[1], x, weights[0])).detach();
      EXPECT_TRUE(at::allclose(got[1], (2 * y * (1 - y * y)).sum(0)));
    }
  });
}

TEST_F(BackwardThreads, AnExceptionInOneLeavesTheOthers) {
  const BackwardCapture installed;
  std::atomic<int> thrown{0};
  on_threads([&](int thread) {
    const BackwardCapture guard;
    for (int round = 0; round < kRounds; ++round) {
      const at::Tensor x = input(4, round);
      at::Tensor middle = at::addmm(weights[1], x, weights[0]);
      if (thread == 0) middle.register_hook([](at::Tensor) -> at::Tensor { throw std::runtime_error("the hook's"); });
      try {
        torch::autograd::grad({middle.sum()}, weights);
        EXPECT_NE(thread, 0);
      } catch (const std::runtime_error& error) {
        EXPECT_STREQ(error.what(), "the hook's");
        ++thrown;
      }
    }
  });
  EXPECT_EQ(thrown, kRounds);
}

TEST_F(BackwardThreads, BackwardsInsideHooks) {
  const BackwardCapture installed;
  on_threads([&](int thread) {
    const BackwardCapture guard;
    for (int round = 0; round < kRounds; ++round) {
      at::Tensor middle = at::addmm(weights[1], input(4, thread), weights[0]);
      at::Tensor inner;
      middle.register_hook([&](at::Tensor gradient) {
        const torch::AutoGradMode on(true);
        inner = torch::autograd::grad({loss(input(4, thread))}, weights)[1];
        return gradient;
      });
      torch::autograd::grad({middle.sum()}, weights);
      EXPECT_TRUE(inner.defined());
    }
  });
}

TEST(BackwardCaptureOfThreads, ThreadsWithoutAGuardRunInEager) {
  backward_capture::reset();
  const BackwardCapture capture;
  at::Tensor gradient;
  std::thread([&] {
    const at::Tensor x = torch::ones({2}).requires_grad_();
    (x * 3).sum().backward();
    gradient = x.grad();
  }).join();
  EXPECT_TRUE(gradient.equal(torch::full({2}, 3.0)));
  EXPECT_EQ(backward_capture::statistics().captures, 0);
}

TEST(BackwardCaptureOfThreads, ThreadsWithGuardsCaptureAtOnce) {
  backward_capture::reset();
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int k = 0; k < 4; ++k) {
    threads.emplace_back([&wrong, k] {
      for (int i = 0; i < 20; ++i) {
        const BackwardCapture capture;
        const at::Tensor x = torch::full({2}, 1.0 + k).requires_grad_();
        (x * x * x).sum().backward();
        if (!torch::allclose(x.grad(), 3 * x.detach() * x.detach())) ++wrong;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(BackwardCaptureOfThreads, EnabledForAllThreads) {
  backward_capture::reset();
  backward_capture::enable();
  std::thread([] {
    const at::Tensor x = torch::ones({2}).requires_grad_();
    (x * 3).sum().backward();
    EXPECT_TRUE(x.grad().equal(torch::full({2}, 3.0)));
  }).join();
  backward_capture::disable();
  EXPECT_EQ(backward_capture::statistics().captures, 1);
}

}  // namespace
}  // namespace diptych::testing
