// The first things that a user of aot_function and capture does.
#include "compile/eager_check.h"

namespace diptych::testing {
namespace {

Tensors two_leaves() { return {torch::arange(6.0).reshape({2, 3}).requires_grad_(), torch::ones({2, 3}).mul(0.5).requires_grad_()}; }

TEST(Aot, GivesValuesAndGradientsOfEager) {
  expect_as_eager(two_leaves, [](const Tensors& t) -> Tensors { return {((t[0] * t[1] + t[0]).tanh() * t[1]).sum()}; });
}

TEST(Aot, ComputesMatrixProducts) {
  expect_as_eager(two_leaves, [](const Tensors& t) -> Tensors { return {t[0].matmul(t[1].t()).relu()}; });
}

TEST(Aot, DifferentiatesToSecondOrder) {
  torch::manual_seed(0);
  expect_gradients_right({torch::randn({2, 3}, torch::kFloat64).requires_grad_(), torch::randn({2, 3}, torch::kFloat64).requires_grad_()},
                         [](const Tensors& t) -> Tensors { return {(t[0] * t[1]).tanh() * t[0].exp(), t[0].matmul(t[1].t())}; });
}

TEST(Aot, KeepsNoArgumentAlive) {
  const auto f = aot_function([](const at::Tensor& x, const at::Tensor& w) { return (x * w).sum(); });
  const at::Tensor w = torch::ones({3}).requires_grad_();
  at::Tensor x = torch::ones({3});
  const c10::weak_intrusive_ptr<c10::TensorImpl> watched(x.getIntrusivePtr());
  f(x, w).backward();
  x = at::Tensor();
  EXPECT_TRUE(watched.expired());
}

TEST(Aot, FreesResidualsAfterTheBackward) {
  const auto f = aot_function([](const at::Tensor& x) { return (x.exp() * x).sum(); });
  at::Tensor x = torch::ones({3}).requires_grad_();
  const c10::weak_intrusive_ptr<c10::TensorImpl> watched(x.getIntrusivePtr());
  const at::Tensor y = f(x);
  y.backward();
  x = at::Tensor();
  // The leaf lives on only as long as the graph that accumulates into it.
  EXPECT_LE(watched.use_count(), 1U);
}

TEST(Capture, ShowsForwardAndBackward) {
  const auto x = torch::ones({2, 3}).requires_grad_();
  const auto w = torch::ones({3, 4}).requires_grad_();
  const Pair pair = capture([](const at::Tensor& a, const at::Tensor& b) { return a.matmul(b).tanh(); }, x, w);
  SCOPED_TRACE(pair.code());
  const auto [outputs, residuals] = pair.forward_call({x, w});
  EXPECT_TRUE(at::equal(outputs.at(0), x.matmul(w).tanh()));
  const auto grads = pair.backward_call(residuals, {torch::ones({2, 4})});
  x.matmul(w).tanh().sum().backward();
  EXPECT_TRUE(at::equal(grads.at(0), x.grad()));
  EXPECT_TRUE(at::equal(grads.at(1), w.grad()));
}

}  // namespace
}  // namespace diptych::testing
