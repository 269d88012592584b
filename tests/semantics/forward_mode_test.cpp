// Duals of forward-mode differentiation: calls, loops and gradients of them.
#include <ATen/FunctionalTensorWrapper.h>
#include <ATen/ops/_make_dual.h>
#include <ATen/ops/_unpack_dual.h>
#include <torch/csrc/autograd/forward_grad.h>
#include <torch/nn.h>

#include "diptych/hops/scan/scan_layers.h"
#include "diptych/pair/module.h"
#include "semantics/transform_cases.h"

namespace diptych::testing {
namespace {

class DualLevel {
 public:
  DualLevel() : level_(torch::autograd::ForwardADLevel::get_next_idx()) {}
  ~DualLevel() { torch::autograd::ForwardADLevel::release_idx(level_); }
  DualLevel(const DualLevel&) = delete;
  DualLevel& operator=(const DualLevel&) = delete;

  at::Tensor dual(const at::Tensor& primal, const at::Tensor& tangent) const {
    return at::_make_dual(primal, tangent, static_cast<int64_t>(level_));
  }
  at::Tensor tangent(const at::Tensor& dual) const {
    return std::get<1>(at::_unpack_dual(dual, static_cast<int64_t>(level_)));
  }

 private:
  uint64_t level_;
};

TEST(ForwardMode, DualsGiveEagersTangentWarmAndCold) {
  const auto x = values({3, 4}), t = values({3, 4}, 1);
  for (const Case& row : cases()) {
    SCOPED_TRACE(row.name);
    for (int call = 0; call < 2; ++call) {
      {
        const DualLevel level;
        const at::Tensor got = row.ours(level.dual(x, t)), wanted = row.eager(level.dual(x, t));
        expect_close(level.tangent(got), level.tangent(wanted));
        expect_close(got, wanted);
      }
      expect_close(row.ours(x), row.eager(x));
      EXPECT_FALSE(detail::has_tangent(row.ours(x)));
    }
  }
}

TEST(ForwardMode, AGradientOfADualHasATangent) {
  const auto t = values({3, 4}, 1);
  for (const Case& row : cases()) {
    SCOPED_TRACE(row.name);
    const DualLevel level;
    const auto look = [&](const auto& function) {
      const at::Tensor x = leaf({3, 4});
      return torch::autograd::grad({function(level.dual(x, t))}, {x})[0];
    };
    expect_close(level.tangent(look(row.ours)), level.tangent(look(row.eager)));
  }
}

TEST(ForwardMode, ATensorThatAFunctionCapturesMayBecomeADual) {
  const auto w = torch::zeros({3, 4}), x = values({3, 4}), t = values({3, 4}, 1);
  const auto f = aot_function([&](const at::Tensor& y) { return (y * w).sum(); });
  const auto g = [&](const at::Tensor& y) {
    return scan([&](const at::Tensor& c, const at::Tensor& z) { return std::pair(c + (z * w[0]).sum(), z); }, y.sum(),
                y)
        .first;
  };
  f(x);
  for (int call = 0; call < 2; ++call) {
    const DualLevel level;
    w.copy_(level.dual(values({3, 4}, 2), t));
    expect_close(level.tangent(f(x)), (x * t).sum());
    expect_close(level.tangent(g(x)), (x * t[0]).sum());
  }
  EXPECT_EQ(f.stats().originals, 0);
  f(x);
  EXPECT_EQ(f.stats().hits, 1);
}

TEST(ForwardMode, AFirstCallMeetsACapturedDual) {
  const auto x = values({3, 4}), t = values({3, 4}, 1);
  const DualLevel level;
  const at::Tensor w = level.dual(values({3, 4}, 2), t);
  const auto f = aot_function([&](const at::Tensor& y) { return (y * w).sum(); });
  for (int call = 0; call < 2; ++call) expect_close(level.tangent(f(x)), (x * t).sum());
  EXPECT_EQ(f.stats().entries, 0);
  expect_error([&] { (void)(capture([&](const at::Tensor& y) { return y * w; }, x)); },
               "'free.0' has a forward-mode tangent, which a graph can't represent");
}

TEST(ForwardMode, AModulesParameterMayBeADual) {
  auto layer = torch::nn::Linear(4, 4);
  auto compiled = aot_module(layer);
  const auto x = values({3, 4});
  compiled(x);
  const DualLevel level;
  {
    const at::NoGradGuard no_grad;
    layer->weight.copy_(level.dual(values({4, 4}), values({4, 4}, 1)));
  }
  expect_close(level.tangent(compiled(x)), x.matmul(values({4, 4}, 1).t()));
}

TEST(ForwardMode, LayersOfAScanMayHaveDuals) {
  std::vector<torch::nn::Linear> layers{torch::nn::Linear(4, 4), torch::nn::Linear(4, 4)};
  const auto x = values({3, 4}), t = values({3, 4}, 1);
  const DualLevel level;
  const auto wanted = layers[1](layers[0](level.dual(x, t)));
  expect_close(level.tangent(scan_layers(layers, level.dual(x, t))), level.tangent(wanted));
}

TEST(ForwardMode, ARuleTakesDuals) {
  const auto rule =
      custom_vjp([](const at::Tensor& x) { return x.sin(); }, [](const at::Tensor& x) { return std::pair(x.sin(), x); },
                 [](const at::Tensor& x, const at::Tensor& t) { return std::tuple(t * x.cos()); });
  const auto x = values({3, 4}), t = values({3, 4}, 1);
  const DualLevel level;
  expect_close(level.tangent(rule(level.dual(x, t))), t * x.cos());
  expect_close(level.tangent(rule(level.dual(leaf({3, 4}), t))), t * x.cos());
}

TEST(ForwardMode, BarePairsRefuseThem) {
  const auto x = values({3}), t = values({3}, 1);
  const Pair pair = capture([](const at::Tensor& y) { return y * 2; }, x);
  const DualLevel level;
  expect_error([&] { (void)(pair.forward_call({level.dual(x, t)})); },
               "[forward_call] tensor 0 has a forward-mode tangent");
  expect_error([&] { (void)(call_pair(pair, {level.dual(x, t)})); }, "[call_pair] tensor 0 has a forward-mode tangent");
  expect_error([&] { (void)(capture([](const at::Tensor& y) { return y * 2; }, level.dual(x, t))); },
               "[capture] 'arg0' has a forward-mode tangent, expected plain tensors and no mode");
}

TEST(ForwardMode, AGradientMayBeAskedForWithADual) {
  const at::Tensor x = leaf({3, 4});
  const at::Tensor ys = scan(cell, at::Tensor(x[0]), x).second;
  const DualLevel level;
  const auto look = [&](const at::Tensor& tangent) {
    return torch::autograd::grad({ys}, {x}, {tangent}, /*retain_graph=*/true)[0];
  };
  const at::Tensor direction = values({3, 4}, 1);
  expect_close(level.tangent(look(level.dual(torch::ones({3, 4}), direction))), look(direction));
}

TEST(ForwardMode, ADualTangentOfACompiledFunction) {
  const at::Tensor x = leaf({3, 4});
  const at::Tensor y = aot_function([](const at::Tensor& z) { return z.sin(); })(x);
  const DualLevel level;
  const at::Tensor gradient = torch::autograd::grad({y}, {x}, {level.dual(values({3, 4}), values({3, 4}, 1))})[0];
  expect_close(level.tangent(gradient), values({3, 4}, 1) * x.cos());
}

TEST(ForwardMode, CallsRunByTheFunctionAreListed) {
  const std::string why = "[scan] 'xs' is a functional tensor of another tracer";
  const size_t before = eager_calls()[why];
  map([](const at::Tensor& x) { return x.sin(); }, at::functionalization::impl::to_functional_tensor(values({3, 4})));
  EXPECT_EQ(eager_calls()[why], before + 1);
}

}  // namespace
}  // namespace diptych::testing
