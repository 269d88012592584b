// DIPTYCH_CHECK stands for the option of every compiled function, and is reported if it is no number. A program of its
// own, since the variable is read once.
#include <cstdlib>

#include "testing/refusal.h"

namespace diptych::testing {
namespace {

TEST(CheckEnvironment, MustBeANumberAndStandsForTheOption) {
  double scale = 2;
  const auto make = [&] { return aot_function([&](const at::Tensor& x) { return x * scale; }); };
  ::setenv("DIPTYCH_CHECK", "often", 1);
  expect_error([&] { (void)make(); }, "[DIPTYCH_CHECK] got 'often', expected a whole number n: one call in n");
  ::setenv("DIPTYCH_CHECK", "2", 1);
  const auto f = make();
  f(torch::ones({2}));
  scale = 3;
  expect_refusal([&] { f(torch::ones({2})); }, {"[check aot] result 'out' differs from the original function's"});
  EXPECT_EQ(f.stats().checks, 1U);
}

}  // namespace
}  // namespace diptych::testing
