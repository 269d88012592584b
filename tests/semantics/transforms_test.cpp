// Calls that no graph stands for: batches of vmap, wrapped tensors, dispatch keys of the thread.
#include <ATen/FunctionalTensorWrapper.h>
#include <ATen/LegacyVmapMode.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/functorch/BatchedTensorImpl.h>
#include <ATen/functorch/DynamicLayer.h>
#include <torch/csrc/autograd/anomaly_mode.h>
// Behind torch.func's headers, which would take its functions for theirs.
#include <ATen/LegacyBatchedTensorImpl.h>

#include "diptych/trace/transforms.h"
#include "semantics/transform_cases.h"

namespace diptych::testing {
namespace {

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

}  // namespace
}  // namespace diptych::testing
