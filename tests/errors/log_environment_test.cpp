// A misspelt DIPTYCH_LOG is reported by the first call, and mending it is enough. A program of its own, since the
// variable is read once.
#include <cstdlib>

#include "diptych/base/switches.h"
#include "testing/refusal.h"

namespace diptych::testing {
namespace {

TEST(LogEnvironment, TheSwitchForCheckedCallsIsReadOnce) {
  ::setenv("DIPTYCH_CHECK_CALLS", "yes", 1);
  try {
    (void)checks_calls();
    ADD_FAILURE() << "expected an error";
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("[DIPTYCH_CHECK_CALLS] got 'yes', expected 0 or 1; leave it out"),
              std::string::npos)
        << error.what();
  }
  ::setenv("DIPTYCH_CHECK_CALLS", "1", 1);
  EXPECT_TRUE(checks_calls());
  ::unsetenv("DIPTYCH_CHECK_CALLS");
  EXPECT_TRUE(checks_calls());
}

TEST(LogEnvironment, IsCheckedAtTheFirstCall) {
  ::setenv("DIPTYCH_LOG", "grahps", 1);
  const auto f = aot_function([](const at::Tensor& x) { return x * 2; });
  const ThreadState before;
  try {
    f(ones_leaf({2}));
    ADD_FAILURE() << "expected an error";
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("[DIPTYCH_LOG] got 'grahps', which is no switch"), std::string::npos)
        << error.what();
  }
  EXPECT_TRUE(before == ThreadState());
  ::unsetenv("DIPTYCH_LOG");
  expect_good_call();
}

}  // namespace
}  // namespace diptych::testing
