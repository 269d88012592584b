// A misspelt DIPTYCH_LOG is reported by the first call, and mending it is enough. A program of its own, since the
// variable is read once.
#include <cstdlib>

#include "errors/refusal.h"

namespace diptych::testing {
namespace {

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
