// Work for several threads: every part once, on LibTorch's threads, and exceptions come back.
#include "diptych/base/parallel.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

namespace diptych {
namespace {

using detail::in_parallel;

class Parallel : public ::testing::Test {
 protected:
  void SetUp() override { at::set_num_threads(4); }
  void TearDown() override { at::set_num_threads(before_); }

 private:
  int before_ = at::get_num_threads();
};

TEST_F(Parallel, EveryElementIsDoneOnceWhateverTheGrain) {
  for (const int64_t count : {0, 1, 7, 100, 1001}) {
    for (const int64_t grain : {0, 1, 3, 100, 5000}) {
      std::vector<std::atomic<int>> done(static_cast<size_t>(count));
      in_parallel(count, grain, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) ++done[static_cast<size_t>(i)];
      });
      for (int64_t i = 0; i < count; ++i) ASSERT_EQ(done[static_cast<size_t>(i)], 1) << count << ", " << grain;
    }
  }
}

std::set<std::thread::id> threads_of(int64_t count, int64_t grain) {
  std::mutex mutex;
  std::set<std::thread::id> threads;
  in_parallel(count, grain, [&](int64_t, int64_t) {
    {
      const std::lock_guard lock(mutex);
      threads.insert(std::this_thread::get_id());
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  });
  return threads;
}

TEST_F(Parallel, TakesAsManyThreadsAsLibTorchHas) {
  EXPECT_GT(threads_of(64, 1).size(), 1U);
  EXPECT_EQ(threads_of(64, 64).size(), 1U);
  at::set_num_threads(1);
  EXPECT_EQ(threads_of(64, 1), std::set{std::this_thread::get_id()});
}

TEST_F(Parallel, WithinParallelWorkStaysOnItsThread) {
  std::atomic<int> outer{0}, inner{0};
  in_parallel(8, 1, [&](int64_t, int64_t) {
    ++outer;
    if (at::in_parallel_region()) inner += threads_of(16, 1).size() == 1 ? 1 : 100;
  });
  EXPECT_LE(inner, outer);
  EXPECT_GT(inner, 0);
}

TEST_F(Parallel, AnExceptionIsThrownWhereTheWorkWasAskedFor) {
  const auto work = [](int64_t begin, int64_t) {
    if (begin >= 32) throw std::runtime_error("the work failed");
  };
  EXPECT_THROW(in_parallel(64, 1, work), std::runtime_error);
  EXPECT_GT(threads_of(64, 1).size(), 1U);  // nothing is left behind
}

}  // namespace
}  // namespace diptych
