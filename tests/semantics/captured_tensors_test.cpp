// Tensors that a function captures: guarded, differentiated and changed as its arguments are.
#include "semantics/inputs.h"

namespace diptych::testing {
namespace {

TEST(CapturedTensors, ArgumentThatIsCapturedTooIsTheArgument) {
  const at::Tensor w = leaf({2, 3});
  const Pair pair = capture([&](const at::Tensor& x) { return x * w; }, w);
  EXPECT_TRUE(pair.free_variables.empty());
  EXPECT_EQ(pair.signature.num_arguments(), 1U);
  const auto f = aot_function([&](const at::Tensor& x) { return (x * w).sum(); });
  f(w).backward();
  EXPECT_TRUE(at::allclose(w.grad(), 2 * w.detach()));
}

TEST(CapturedTensors, CapturedTensorsAreFreeVariables) {
  const at::Tensor w = leaf({2, 3});
  const at::Tensor b = values({3});
  const auto g = [&](const at::Tensor& x) { return (x * w + b).tanh().sum(); };
  const auto f = aot_function(g);
  for (int i = 0; i < 2; ++i) {
    const at::Tensor x = leaf({2, 3});
    const at::Tensor expected_x = leaf({2, 3});
    w.mutable_grad() = at::Tensor();
    g(expected_x).backward();
    const at::Tensor expected_w = w.grad().clone();
    w.mutable_grad() = at::Tensor();
    f(x).backward();
    EXPECT_TRUE(at::allclose(w.grad(), expected_w));
    EXPECT_TRUE(at::allclose(x.grad(), expected_x.grad()));
  }
}

TEST(CapturedTensors, CapturedTensorMutatedThroughAView) {
  at::Tensor counter = torch::zeros({2, 2});
  const auto f = aot_function([&](const at::Tensor& x) {
    counter.t()[0].add_(1);
    return x + counter;
  });
  for (int i = 1; i <= 3; ++i) {
    const at::Tensor got = f(torch::zeros({2, 2}));
    EXPECT_TRUE(at::equal(got, torch::tensor({{1.0F * i, 0.0F}, {1.0F * i, 0.0F}}))) << got;
    EXPECT_TRUE(at::equal(counter, got));
  }
}

TEST(CapturedTensors, ACapturedTensorIsGuarded) {
  const at::Tensor captured = torch::ones({3});
  const auto f = aot_function([&](const at::Tensor& x) { return x * captured; });
  EXPECT_FALSE(f(torch::ones({3})).requires_grad());
  captured.requires_grad_();
  EXPECT_TRUE(f(torch::ones({3})).requires_grad());
  EXPECT_NE(f.stats().last_miss.find("free.0"), std::string::npos) << f.stats().last_miss;
}

TEST(CapturedTensors, ShapeOfACapturedTensorIsNotChangedInPlace) {
  const at::Tensor captured = torch::ones({3});
  const auto f = aot_function([&](const at::Tensor& x) {
    captured.unsqueeze_(0);
    return x * 2;
  });
  expect_error<UserError>([&] { f(torch::zeros({1})); }, "changes the shape of a captured tensor");
}

}  // namespace
}  // namespace diptych::testing
