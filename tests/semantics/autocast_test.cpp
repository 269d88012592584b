// Autocast inside a function and around it.
#include <ATen/autocast_mode.h>

#include "semantics/inputs.h"

namespace diptych::testing {
namespace {

// Autocast.
TEST(Autocast, AutocastInsideTheFunction) {
  const auto g = [](const Tensors& t) -> Tensors {
    const bool was = at::autocast::is_autocast_enabled(at::kCPU);
    at::autocast::set_autocast_enabled(at::kCPU, true);
    const at::Tensor y = t[0].matmul(t[1].t());
    at::autocast::set_autocast_enabled(at::kCPU, false);
    const at::Tensor z = t[0].matmul(t[1].t());
    at::autocast::set_autocast_enabled(at::kCPU, was);
    at::autocast::clear_cache();
    return {y, z};
  };
  expect_as_eager(two, g);
}

TEST(Autocast, AutocastAroundTheFunction) {
  const auto g = [](const at::Tensor& x, const at::Tensor& w) { return x.matmul(w.t()).sum(); };
  const auto f = aot_function(g);
  const auto run = [](const auto& function, bool forward, bool backward) {
    const at::Tensor x = leaf({2, 3}), w = leaf({2, 3}, 0.5);
    at::autocast::set_autocast_enabled(at::kCPU, forward);
    const at::Tensor y = function(x, w);
    at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(at::kCPU, backward);
    y.backward();
    at::autocast::set_autocast_enabled(at::kCPU, false);
    at::autocast::clear_cache();
    return std::vector<at::Tensor>{y, x.grad(), w.grad()};
  };
  for (int mask = 0; mask < 4; ++mask) {
    const auto expected = run(g, mask & 1, mask & 2);
    const auto got = run(f, mask & 1, mask & 2);
    EXPECT_TRUE(same_tensors(got, expected)) << mask;
  }
}

TEST(Autocast, GradientsComeInTheForwardsDtype) {
  expect_as_eager(
      [] {
        return Tensors{leaf({2, 3}).detach().to(torch::kBFloat16).requires_grad_(), leaf({2, 3})};
      },
      [](const Tensors& t) -> Tensors { return {t[0].to(torch::kFloat) * t[1]}; });
}

}  // namespace
}  // namespace diptych::testing
