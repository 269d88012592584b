// Hooks on inputs, intermediates and nodes, and retain_grad().
#include <torch/csrc/autograd/utils/lambda_post_hook.h>

#include "semantics/inputs.h"

namespace diptych::testing {
namespace {

// Hooks.
TEST(Hooks, HooksOnInputsRunAroundTheGraph) {
  const auto g = [](const at::Tensor& x) { return (x * x).sum(); };
  const auto f = aot_function(g);
  int calls = 0;
  const at::Tensor x = leaf({3});
  x.register_hook([&](const at::Tensor& grad) {
    ++calls;
    return grad * 2;
  });
  f(x).backward();
  EXPECT_EQ(calls, 1);
  EXPECT_TRUE(at::allclose(x.grad(), 4 * x.detach()));
}

TEST(Hooks, HooksOnIntermediatesRunInsideIt) {
  expect_as_eager(two, [](const Tensors& t) -> Tensors {
    const at::Tensor h = t[0] * t[1];
    h.register_hook([](const at::Tensor& grad) { return grad * 3; });
    return {h.sin()};
  });
}

TEST(Hooks, HooksOnNodesRunInsideIt) {
  expect_as_eager(two, [](const Tensors& t) -> Tensors {
    const at::Tensor h = t[0] * t[1];
    const auto tripled = [](const torch::autograd::variable_list& gradients) {
      torch::autograd::variable_list result;
      for (const at::Tensor& gradient : gradients) result.push_back(gradient.defined() ? gradient * 3 : gradient);
      return result;
    };
    h.grad_fn()->add_post_hook(std::make_unique<torch::autograd::utils::LambdaPostHook>(
        [=](const torch::autograd::variable_list& outputs, const torch::autograd::variable_list&) {
          return tripled(outputs);
        }));
    const at::Tensor y = h.sin() + h.cos();
    return {y * h};
  });
}

TEST(Hooks, RetainGradOnAnOutput) {
  const auto f = aot_function([](const at::Tensor& x) {
    const at::Tensor h = x * 2;
    h.retain_grad();
    return std::pair(h, x.sin().sum());
  });
  for (int i = 0; i < 2; ++i) {
    const at::Tensor x = leaf({3});
    const auto [h, y] = f(x);
    (h.square().sum() + y).backward();
    EXPECT_TRUE(at::equal(h.grad(), 2 * h));
  }
}

TEST(Hooks, RetainGradOnANonLeafInput) {
  const auto f = aot_function([](const at::Tensor& x) { return x.sin().sum(); });
  const at::Tensor a = leaf({3});
  const at::Tensor h = a * 2;
  h.retain_grad();
  f(h).backward();
  EXPECT_TRUE(at::allclose(h.grad(), h.detach().cos()));
}

}  // namespace
}  // namespace diptych::testing
