// dp::jvp, vjp, jacrev, jacfwd and hessian beside autograd's own gradients.
#include "diptych/compile/gradients.h"
#include "diptych/hops/scan/scan.h"
#include "diptych/transforms/jacobian.h"
#include "testing/values.h"

namespace diptych::testing {
namespace {

void expect_close(const at::Tensor& got, const at::Tensor& wanted) {
  ASSERT_TRUE(got.defined());
  EXPECT_TRUE(same_tensor(got, wanted, {.rtol = 1e-9, .atol = 1e-9}));
}

at::Tensor doubles(at::IntArrayRef sizes, double shift = 0) { return values64(sizes, shift); }

at::Tensor f(const at::Tensor& x) {
  return scan([](const at::Tensor& c, const at::Tensor& y) { return std::pair((c * y).tanh(), c.sin() * y); },
              at::Tensor(x[0]), x)
      .second.sum(0);
}

// The Jacobian, by one backward a row.
at::Tensor jacobian(const std::function<at::Tensor(const at::Tensor&)>& function, const at::Tensor& x) {
  const at::Tensor leaf = x.detach().clone().requires_grad_();
  const at::Tensor y = function(leaf).reshape({-1});
  Tensors rows;
  for (int64_t i = 0; i < y.numel(); ++i) rows.push_back(torch::autograd::grad({y[i]}, {leaf}, {}, true)[0]);
  return torch::stack(rows);
}

TEST(Derivatives, ACompiledFunctionAsksForValues) {
  const auto branches = [](const at::Tensor& x) { return (x.sum() > 0).item<bool>() ? x.sin() : x * x; };
  const auto compiled = aot_function(branches);
  for (const double shift : {9.0, -9.0, 9.0}) {
    const at::Tensor x = doubles({3, 2}, 1) + shift;
    expect_close(jacrev(compiled)(x), jacrev(branches)(x));
    const auto [value, tangent] = jvp(compiled, std::tuple(x), std::tuple(x));
    expect_close(tangent, jvp(branches, std::tuple(x), std::tuple(x)).second);
  }
  EXPECT_EQ(compiled.stats().originals, 0U);
  EXPECT_EQ(compiled.stats().misses, 2U);
}

TEST(Derivatives, JvpIsTheJacobianTimesTheDirection) {
  const at::Tensor x = doubles({3, 2}), t = doubles({3, 2}, 1);
  for (const auto& function : {std::function<at::Tensor(const at::Tensor&)>(f), {aot_function(f)}}) {
    const auto [value, tangent] = jvp(function, std::tuple(x), std::tuple(t));
    expect_close(value, f(x));
    expect_close(tangent, (jacobian(f, x) * t).sum({1, 2}));
  }
}

TEST(Derivatives, ATangentOfWhatDoesNotDependOnTheArgumentIsZero) {
  const at::Tensor x = doubles({2});
  const auto found =
      jvp([](const at::Tensor& y) { return std::pair(y * 2, torch::ones({3})); }, std::tuple(x), std::tuple(x));
  expect_close(found.second.first, x * 2);
  expect_close(found.second.second, torch::zeros({3}));
}

TEST(Derivatives, VjpMayBeCalledAgainAndInsideOfVmap) {
  const at::Tensor x = doubles({3, 2});
  const auto [value, pull] = vjp(f, x);
  expect_close(value, f(x));
  const at::Tensor rows = jacobian(f, x);
  for (int64_t i = 0; i < 2; ++i) {
    const at::Tensor tangent = torch::eye(2, at::kDouble)[i];
    expect_close(std::get<0>(pull(tangent)), rows[i]);
  }
  const auto row = [&pull = pull](const at::Tensor& tangent) { return std::get<0>(pull(tangent)); };
  expect_close(vmap(row)(torch::eye(2, at::kDouble)), rows);
}

TEST(Derivatives, VjpOfSeveralArguments) {
  const at::Tensor x = doubles({3}), w = doubles({3}, 1), index = torch::tensor(1);
  const auto [value, pull] = vjp([](const at::Tensor& a, const at::Tensor& b,
                                    const at::Tensor& i) { return (a * b).index_select(0, i.reshape({1})); },
                                 x, w, index);
  const auto [dx, dw, di] = pull(torch::ones({1}, at::kDouble));
  expect_close(dx, w * torch::tensor({0.0, 1.0, 0.0}, at::kDouble));
  expect_close(dw, x * torch::tensor({0.0, 1.0, 0.0}, at::kDouble));
  EXPECT_EQ(di.item<int64_t>(), 0);
}

TEST(Derivatives, JacobiansByRowsAndByColumnsAgree) {
  const at::Tensor x = doubles({3, 2});
  const at::Tensor wanted = jacobian(f, x);
  for (const auto& function : {std::function<at::Tensor(const at::Tensor&)>(f), {aot_function(f)}}) {
    expect_close(jacrev(function)(x), wanted);
    expect_close(jacfwd(function)(x), wanted);
  }
  const auto captured = aot_function(jacrev(f));
  for (int call = 0; call < 2; ++call) expect_close(captured(x), wanted);
  EXPECT_EQ(captured.stats().originals, 0U);
}

TEST(Derivatives, HessiansOfEveryKindAgree) {
  const auto g = [](const at::Tensor& x) { return f(x).sin().sum(); };
  const at::Tensor x = doubles({3, 2});
  const auto gradient = [&](const at::Tensor& y) {
    const at::Tensor leaf = y.requires_grad() ? y : y.detach().requires_grad_();
    return torch::autograd::grad({g(leaf)}, {leaf}, {}, true, true)[0];
  };
  const at::Tensor wanted = jacobian(gradient, x).reshape({3, 2, 3, 2});
  expect_close(hessian(g)(x), wanted);
  expect_close(jacrev(jacrev(g))(x), wanted);
  expect_close(jacfwd(jacfwd(g))(x), wanted);
  expect_close(jacrev(grad(g))(x), wanted);
  expect_close(aot_function(hessian(g))(x), wanted);
  const at::Tensor batch = torch::stack({x, x * 0.5});
  expect_close(vmap(hessian(g))(batch)[0], wanted);
}

TEST(Derivatives, FurtherArgumentsAreConstants) {
  const at::Tensor x = doubles({3}), w = doubles({3}, 1);
  const auto product = [](const at::Tensor& a, const at::Tensor& b) { return a * b; };
  expect_close(jacrev(product)(x, w), torch::diag(w));
  expect_close(jacfwd(product)(x, w), torch::diag(w));
}

TEST(Derivatives, RefusesTangentsThatDoNotFit) {
  const at::Tensor x = doubles({3});
  const auto twice = [](const at::Tensor& y) { return y * 2; };
  expect_error([&] { (void)jvp(twice, std::tuple(x), std::tuple(doubles({4}))); }, "does not look like its tangent");
  const auto recorded = vjp(twice, x);
  expect_error([&] { (void)recorded.second(doubles({4})); }, "the tangent of 'out' does not look like it");
  EXPECT_FALSE(detail::levels_are_active());
}

TEST(Derivatives, AnExceptionLeavesNoLevelBehind) {
  const at::Tensor x = doubles({3});
  const auto bad = [](const at::Tensor& y) -> at::Tensor { throw std::runtime_error("no " + std::to_string(y.dim())); };
  EXPECT_THROW((void)jvp(bad, std::tuple(x), std::tuple(x)), std::runtime_error);
  EXPECT_THROW((void)vjp(bad, x), std::runtime_error);
  EXPECT_THROW((void)vmap(bad)(x), std::runtime_error);
  EXPECT_THROW((void)jacfwd(bad)(x), std::runtime_error);
  EXPECT_FALSE(detail::levels_are_active());
  const auto found = jvp([](const at::Tensor& y) { return y * 3; }, std::tuple(x), std::tuple(x));
  expect_close(found.second, x * 3);
}

}  // namespace
}  // namespace diptych::testing
