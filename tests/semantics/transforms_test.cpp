// Calls that no graph stands for: forward-mode duals, batches of vmap, wrapped tensors, dispatch keys of the thread.
#include <ATen/FunctionalTensorWrapper.h>
#include <ATen/LegacyVmapMode.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/functorch/BatchedTensorImpl.h>
#include <ATen/functorch/DynamicLayer.h>
#include <ATen/ops/_make_dual.h>
#include <ATen/ops/_unpack_dual.h>
#include <torch/csrc/autograd/anomaly_mode.h>
#include <torch/csrc/autograd/forward_grad.h>
#include <torch/nn.h>
// Behind torch.func's headers, which would take its functions for theirs.
#include <ATen/LegacyBatchedTensorImpl.h>

#include "diptych/hops/scan/scan_layers.h"
#include "diptych/pair/module.h"
#include "diptych/trace/transforms.h"
#include "semantics/values.h"
#include "testing/message_of.h"

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

std::pair<at::Tensor, at::Tensor> cell(const at::Tensor& carry, const at::Tensor& x) {
  const at::Tensor next = (carry * x).tanh();
  return {next, next * 2};
}

at::Tensor loop_of_cell(const at::Tensor& x) {
  at::Tensor carry = x[0];
  Tensors ys;
  for (int64_t i = 0; i < x.size(0); ++i) {
    auto [next, y] = cell(carry, x[i]);
    carry = next;
    ys.push_back(y);
  }
  return carry.sum() + torch::stack(ys).sin().sum();
}

/// A call by Diptych and the same in eager.
struct Case {
  std::string name;
  std::function<at::Tensor(const at::Tensor&)> ours, eager;
};

std::vector<Case> cases() {
  static const at::Tensor w = values({3, 4}, 2);
  const auto body = [](const at::Tensor& x) { return (x.sin() * w).sum(); };
  const auto by_scan = [](const at::Tensor& x) {
    const auto [carry, ys] = scan(cell, at::Tensor(x[0]), x);
    return carry.sum() + ys.sin().sum();
  };
  const auto twice = [](const at::Tensor& x) { return x * 2; };
  return {
      {"aot_function", aot_function(body), body},
      {"scan", by_scan, loop_of_cell},
      {"aot_function of scan", aot_function(by_scan), loop_of_cell},
      {"map",
       [](const at::Tensor& x) { return map([](const at::Tensor& row) { return row.sin() * row.sum(); }, x).sum(); },
       [](const at::Tensor& x) { return (x.sin() * x.sum(1, true)).sum(); }},
      {"cond",
       [body](const at::Tensor& x) {
         return cond(
             torch::tensor(true), body, [](const at::Tensor& y) { return y.sum(); }, x);
       },
       body},
      {"while_loop",
       [twice](const at::Tensor& x) {
         return while_loop([](const at::Tensor& c) { return c.abs().sum() < 40; }, twice, x).sin().sum();
       },
       [](const at::Tensor& x) {
         at::Tensor carry = x;
         while ((carry.abs().sum() < 40).item<bool>()) carry = carry * 2;
         return carry.sin().sum();
       }},
      {"checkpoint", checkpoint(body), body},
      {"associative_scan",
       [](const at::Tensor& x) {
         return associative_scan([](const at::Tensor& a, const at::Tensor& b) { return a * b; }, x).sum();
       },
       [](const at::Tensor& x) { return x.cumprod(0).sum(); }},
  };
}

void expect_close(const at::Tensor& got, const at::Tensor& wanted) {
  ASSERT_TRUE(got.defined() && wanted.defined());
  EXPECT_TRUE(at::allclose(got, wanted, 1e-5, 1e-6)) << got << "\n" << wanted;
}

template <class Action>
void expect_refusal(const std::string& words, const Action& action) {
  const std::string text = message_of(action);
  EXPECT_NE(text.find(words), std::string::npos) << text;
}

TEST(Transforms, DualsGiveEagersTangentWarmAndCold) {
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

TEST(Transforms, AGradientOfADualHasATangent) {
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

TEST(Transforms, ATensorThatAFunctionCapturesMayBecomeADual) {
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
  EXPECT_EQ(f.stats().originals, 2);
  f(x);
  EXPECT_EQ(f.stats().hits, 1);
}

TEST(Transforms, AFirstCallMeetsACapturedDual) {
  const auto x = values({3, 4}), t = values({3, 4}, 1);
  const DualLevel level;
  const at::Tensor w = level.dual(values({3, 4}, 2), t);
  const auto f = aot_function([&](const at::Tensor& y) { return (y * w).sum(); });
  for (int call = 0; call < 2; ++call) expect_close(level.tangent(f(x)), (x * t).sum());
  EXPECT_EQ(f.stats().entries, 0);
  expect_refusal("'free.0' has a forward-mode tangent, which a graph can't represent",
                 [&] { (void)(capture([&](const at::Tensor& y) { return y * w; }, x)); });
}

TEST(Transforms, AModulesParameterMayBeADual) {
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

TEST(Transforms, LayersOfAScanMayHaveDuals) {
  std::vector<torch::nn::Linear> layers{torch::nn::Linear(4, 4), torch::nn::Linear(4, 4)};
  const auto x = values({3, 4}), t = values({3, 4}, 1);
  const DualLevel level;
  const auto wanted = layers[1](layers[0](level.dual(x, t)));
  expect_close(level.tangent(scan_layers(layers, level.dual(x, t))), level.tangent(wanted));
}

TEST(Transforms, ARuleTakesDualsThatRequireNoGrad) {
  const auto rule =
      custom_vjp([](const at::Tensor& x) { return x.sin(); }, [](const at::Tensor& x) { return std::pair(x.sin(), x); },
                 [](const at::Tensor& x, const at::Tensor& t) { return std::tuple(t * x.cos()); });
  const auto x = values({3, 4}), t = values({3, 4}, 1);
  const DualLevel level;
  expect_close(level.tangent(rule(level.dual(x, t))), t * x.cos());
  expect_refusal("and gradients are recorded, which must be the rule's", [&] {
    (void)(rule(level.dual(leaf({3, 4}), t)));
  });
}

// vmap as torch.func has it, over the first dimension.
at::Tensor vmap_of(const std::function<at::Tensor(const at::Tensor&)>& function, const at::Tensor& batch) {
  namespace ft = at::functorch;
  const auto level =
      ft::initAndPushDynamicLayer(ft::TransformType::Vmap, batch.size(0), at::functorch::RandomnessType::Error);
  at::Tensor result = function(ft::makeBatched(batch, 0, level));
  const auto* batched = ft::maybeGetBatchedImpl(result);
  result = batched->value().movedim(batched->bdim(), 0);
  ft::popDynamicLayerAndDeleteMetadata();
  return result;
}

TEST(Transforms, VmapOverCalls) {
  const auto batch = torch::stack({values({3, 4}), values({3, 4}, 1)});
  for (const Case& row : cases()) {
    if (row.name == "while_loop") continue;  // whose condition differs within the batch
    SCOPED_TRACE(row.name);
    const auto wanted = torch::stack({row.eager(batch[0]), row.eager(batch[1])});
    for (int call = 0; call < 2; ++call) {
      expect_close(vmap_of(row.ours, batch), wanted);
      expect_close(row.ours(batch[0]), wanted[0]);
    }
  }
}

TEST(Transforms, BatchedGradientsOfAPlainCall) {
  for (const Case& row : cases()) {
    SCOPED_TRACE(row.name);
    const auto look = [&](const auto& function, bool create_graph) {
      const at::Tensor x = leaf({3, 4});
      const at::Tensor y = function(x) * torch::ones(3);
      const at::Tensor rows = torch::eye(3) + 1;
      at::impl::VmapMode::increment_nesting();
      const auto gradient =
          torch::autograd::grad({y}, {x}, {at::addBatchDim(rows, 1, 0)}, /*retain_graph=*/true, create_graph)[0];
      at::impl::VmapMode::decrement_nesting();
      const auto* batched = at::maybeGetBatchedImpl(gradient);
      at::Tensor found = batched->value().movedim(batched->bdims()[0].dim(), 0);
      return create_graph ? torch::autograd::grad({found.sin().sum()}, {x})[0] : found;
    };
    for (const bool create_graph : {false, true}) {
      expect_close(look(row.ours, create_graph), look(row.eager, create_graph));
    }
  }
}

TEST(Transforms, FunctionalTensorsOfOthersRunInEager) {
  const auto f = aot_function([](const at::Tensor& x) { return x.sin(); });
  const auto x = values({3, 4});
  f(x);
  const at::Tensor y = f(at::functionalization::impl::to_functional_tensor(x));
  ASSERT_TRUE(at::functionalization::impl::isFunctionalTensor(y));
  expect_close(at::functionalization::impl::from_functional_tensor(y), x.sin());
  EXPECT_EQ(f.stats().originals, 1);
}

TEST(Transforms, AThreadBelowAutogradRecordsNoHistory) {
  const auto f = aot_function([](const at::Tensor& x) { return x.sin(); });
  const auto x = leaf({3});
  f(x);
  for (int call = 0; call < 2; ++call) {
    const at::AutoDispatchBelowAutograd below;
    EXPECT_FALSE(f(x).requires_grad());
  }
  EXPECT_TRUE(f(x).requires_grad());
  EXPECT_EQ(f.stats().originals, 2);
  EXPECT_EQ(f.stats().original_reasons.begin()->first, "autograd's dispatch keys are excluded on the thread");
}

TEST(Transforms, AKeyThatNobodyKnowsRunsTheFunction) {
  const auto f = aot_function([](const at::Tensor& x) { return x.sin(); });
  const auto x = values({3});
  f(x);
  {
    const c10::impl::IncludeDispatchKeyGuard guard(c10::DispatchKey::TESTING_ONLY_GenericWrapper);
    EXPECT_TRUE(detail::transform_of_thread().has_value());
  }
  EXPECT_FALSE(detail::transform_of_thread().has_value());
  EXPECT_EQ(f.stats().originals, 0);
}

TEST(Transforms, OrdinaryStatesAreNoTransforms) {
  const auto f = aot_function([](const at::Tensor& x) { return x.matmul(x.t()); });
  const auto x = values({3, 4});
  {
    const c10::InferenceMode inference;
    f(x);
    f(x);
  }
  at::autocast::set_autocast_enabled(at::kCPU, true);
  f(x);
  at::autocast::set_autocast_enabled(at::kCPU, false);
  at::autocast::clear_cache();
  const at::NoGradGuard no_grad;
  f(x);
  EXPECT_EQ(f.stats().originals, 0);
  EXPECT_EQ(f.stats().hits, 1);
}

TEST(Transforms, AnomalyModeRunsTheFunction) {
  const auto f = aot_function([](const at::Tensor& x) { return x.sqrt().sum(); });
  f(leaf({3}));
  torch::autograd::AnomalyMode::set_enabled(true);
  EXPECT_TRUE(f(values({3}).abs().requires_grad_()).grad_fn()->name() == "SumBackward0");
  torch::autograd::AnomalyMode::set_enabled(false);
  EXPECT_EQ(f.stats().original_reasons.begin()->first, "anomaly mode is on");
}

TEST(Transforms, BarePairsRefuseThem) {
  const auto x = values({3}), t = values({3}, 1);
  const Pair pair = capture([](const at::Tensor& y) { return y * 2; }, x);
  const DualLevel level;
  expect_refusal("[forward_call] tensor 0 has a forward-mode tangent",
                 [&] { (void)(pair.forward_call({level.dual(x, t)})); });
  expect_refusal("[call_pair] tensor 0 has a forward-mode tangent",
                 [&] { (void)(call_pair(pair, {level.dual(x, t)})); });
  expect_refusal("[capture] 'arg0' has a forward-mode tangent, expected plain tensors and no mode",
                 [&] { (void)(capture([](const at::Tensor& y) { return y * 2; }, level.dual(x, t))); });
}

TEST(Transforms, ATangentThatAnOperatorHasNoRuleForIsRefused) {
  const at::Tensor x = leaf({3, 4});
  const at::Tensor ys = scan(cell, at::Tensor(x[0]), x).second;
  const DualLevel level;
  expect_refusal("[scan] the backward of a captured call got a tangent that has a forward-mode tangent", [&] {
    (void)(torch::autograd::grad({ys}, {x}, {level.dual(torch::ones({3, 4}), torch::ones({3, 4}))}));
  });
}

TEST(Transforms, ADualTangentOfACompiledFunction) {
  const at::Tensor x = leaf({3, 4});
  const at::Tensor y = aot_function([](const at::Tensor& z) { return z.sin(); })(x);
  const DualLevel level;
  const at::Tensor gradient = torch::autograd::grad({y}, {x}, {level.dual(values({3, 4}), values({3, 4}, 1))})[0];
  expect_close(level.tangent(gradient), values({3, 4}, 1) * x.cos());
}

TEST(Transforms, CallsRunByTheFunctionAreListed) {
  const DualLevel level;
  const std::string why = "[scan] 'xs' has a forward-mode tangent";
  const size_t before = eager_calls()[why];
  map([](const at::Tensor& x) { return x.sin(); }, level.dual(values({3, 4}), values({3, 4}, 1)));
  EXPECT_EQ(eager_calls()[why], before + 1);
}

}  // namespace
}  // namespace diptych::testing
