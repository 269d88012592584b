// Tensors that a backward needs and that are changed before it.
#include "testing/values.h"

namespace diptych::testing {
namespace {

// Saved tensors that are changed before the backward.
TEST(SavedTensors, ChangingASavedInputIsEagersError) {
  const auto f = aot_function([](const at::Tensor& x) { return x.sin().sum(); });
  const at::Tensor x = leaf({3});
  const at::Tensor y = f(x);
  {
    const torch::NoGradGuard guard;
    x.add_(1);
  }
  expect_error<std::exception>([&] { y.backward(); }, "has been modified by an inplace operation");
}

TEST(SavedTensors, ChangingAWeightThatIsSavedAsAViewIsEagersError) {
  const at::Tensor w = leaf({4, 3});
  const auto f = aot_function([&](const at::Tensor& x) { return torch::linear(x, w).sum(); });
  const at::Tensor y = f(leaf({2, 3}));
  {
    const torch::NoGradGuard guard;
    w.mul_(2);
  }
  expect_error<std::exception>([&] { y.backward(); }, "has been modified by an inplace operation");
}

TEST(SavedTensors, ChangingASavedOutputIsEagersError) {
  const auto f = aot_function([](const at::Tensor& x) { return x.exp(); });
  const at::Tensor x = leaf({3});
  const at::Tensor y = f(x);
  y.mul_(2);
  expect_error<std::exception>([&] { y.sum().backward(); }, "has been modified by an inplace operation");
}

TEST(SavedTensors, MutationInsideThatBackwardNeedsFailsInTheBackwardOnly) {
  const auto f = aot_function([](const at::Tensor& x) {
    const at::Tensor h = x * 2;
    const at::Tensor y = h.exp();
    y.add_(1);
    return y.sum();
  });
  const at::Tensor y = f(leaf({3}));
  EXPECT_TRUE(y.requires_grad());
  expect_error<std::exception>([&] { y.backward(); }, "has been modified by an inplace operation");
}

TEST(SavedTensors, ChangingATensorThatBackwardDoesNotNeedIsFine) {
  const auto f = aot_function([](const at::Tensor& x) { return (x * 3).sum(); });
  const at::Tensor x = leaf({3});
  const at::Tensor y = f(x);
  {
    const torch::NoGradGuard guard;
    x.add_(1);
  }
  y.backward();
  EXPECT_TRUE(at::equal(x.grad(), torch::full({3}, 3.0)));
}

TEST(SavedTensors, TangentThatCanNotBeTracedSpoilsNoOther) {
  // linear saves the second input, which is then changed; a backward of that input alone does not need it.
  const auto body = [](const at::Tensor& x, const at::Tensor& w) {
    const at::Tensor y = at::linear(x, w);
    w.clamp_(-9, 9);
    return y;
  };
  const auto f = aot_function(body);
  const at::Tensor x = leaf({2, 3});
  const at::Tensor w = leaf({2, 3});
  for (int call = 0; call < 2; ++call) {
    const at::Tensor changed = w * 1;
    const at::Tensor y = f(x, changed);
    w.mutable_grad() = at::Tensor();
    changed.sum().backward({}, /*retain_graph=*/true);
    EXPECT_TRUE(at::equal(w.grad(), torch::ones({2, 3})));
    expect_error<c10::Error>([&] { y.sum().backward(); }, "modified by an inplace operation");
  }
}

TEST(SavedTensors, OnlyWhatABackwardReadsIsChecked) {
  const auto f = aot_function([](const at::Tensor& x) {
    const at::Tensor sum = x + 1;
    return std::vector<at::Tensor>{sum, sum * sum};
  });
  const at::Tensor x = leaf({3});
  const auto results = f(x);
  {
    const at::NoGradGuard guard;
    results[0].mul_(2);
  }
  results[0].sum().backward({}, /*retain_graph=*/true);
  EXPECT_TRUE(at::equal(x.grad(), torch::ones({3})));
  expect_error<c10::Error>([&] { results[1].sum().backward(); }, "modified by an inplace operation");
}

}  // namespace
}  // namespace diptych::testing
