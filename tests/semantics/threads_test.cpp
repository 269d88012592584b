// Calls and backwards from several threads.
#include <thread>

#include "testing/values.h"

namespace diptych::testing {
namespace {

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

}  // namespace
}  // namespace diptych::testing
