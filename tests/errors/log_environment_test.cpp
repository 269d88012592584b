// A misspelt DIPTYCH_LOG is reported by the first call, and mending it is enough. A program of its own, since the
// variable is read once.
#include <cstdlib>

#include "diptych/base/switches.h"
#include "testing/refusal.h"

namespace diptych::testing {
namespace {

TEST(LogEnvironment, TheSwitchForCheckedCallsIsReadOnce) {
  ::setenv("DIPTYCH_CHECK_CALLS", "yes", 1);
  expect_error([] { (void)checks_calls(); },
               "[DIPTYCH_CHECK_CALLS] got 'yes', expected 0 or 1; correct it, or unset it");
  ::setenv("DIPTYCH_CHECK_CALLS", "1", 1);
  EXPECT_TRUE(checks_calls());
  ::unsetenv("DIPTYCH_CHECK_CALLS");
  EXPECT_TRUE(checks_calls());
}

TEST(LogEnvironment, IsCheckedAtTheFirstCall) {
  ::setenv("DIPTYCH_LOG", "grahps", 1);
  const auto f = aot_function([](const at::Tensor& x) { return x * 2; });
  const ThreadState before;
  expect_error([&] { f(ones_leaf({2})); }, "[DIPTYCH_LOG] got 'grahps', which is not a switch");
  EXPECT_TRUE(before == ThreadState());
  ::unsetenv("DIPTYCH_LOG");
  expect_good_call();
}

}  // namespace
}  // namespace diptych::testing
