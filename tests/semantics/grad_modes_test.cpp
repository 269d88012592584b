// no_grad, enable_grad, inference mode and detach; and the modes of kernels.
#include <ATen/Context.h>

#include "semantics/inputs.h"

namespace diptych::testing {
namespace {

// Regions.
TEST(GradModes, NoGradRegionsAreRespected) {
  expect_as_eager(two, [](const Tensors& t) -> Tensors {
    at::Tensor frozen;
    {
      const torch::NoGradGuard guard;
      frozen = (t[0] * t[1]).exp();
    }
    return {frozen * t[0], (t[0] * t[1]).exp(), frozen};
  });
}

TEST(GradModes, EnableGradInsideNoGrad) {
  const torch::NoGradGuard outer;
  expect_as_eager(two,
                  [](const Tensors& t) -> Tensors {
                    const at::Tensor plain = t[0].sin();
                    const torch::AutoGradMode inner(true);
                    return {plain, t[0].sin() * t[1]};
                  },
                  {.backward = false});
}

TEST(GradModes, DetachCutsTheGraph) {
  expect_as_eager(two, [](const Tensors& t) -> Tensors { return {t[0].exp().detach() * t[1] + t[0]}; });
}

TEST(GradModes, NoGradRegionsSurviveSecondOrder) {
  expect_gradients_right({leaf64({3})}, [](const Tensors& t) -> Tensors { return {t[0].pow(3)}; });
  const auto g = [](const at::Tensor& x) {
    at::Tensor frozen;
    {
      const torch::NoGradGuard guard;
      frozen = x.exp();
    }
    return frozen * x.pow(3) + x.exp().detach() * x.pow(2);
  };
  const auto f = aot_function(g);
  const auto second = [](const auto& function, const at::Tensor& x) {
    const auto first = torch::autograd::grad({function(x).sum()}, {x}, {}, true, true)[0];
    return torch::autograd::grad({first.sum()}, {x})[0];
  };
  EXPECT_TRUE(at::allclose(second(g, leaf64({3})), second(f, leaf64({3}))));
}

TEST(GradModes, InferenceMode) {
  const auto g = [](const at::Tensor& x) { return x.sin() * 2; };
  const auto f = aot_function(g);
  const at::Tensor x = leaf({3});
  const c10::InferenceMode guard;
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(at::allclose(g(x), f(x)));
    EXPECT_EQ(g(x).is_inference(), f(x).is_inference());
  }
}

TEST(GradModes, CompositesInInferenceModeAreRecordedAsTheirParts) {
  const auto f = [](const at::Tensor& x, const at::Tensor& w) {
    return at::max_pool2d(at::conv2d(x, w).relu(), {2, 2}).flatten(1);
  };
  const at::Tensor x = leaf({2, 3, 6, 8}).detach().contiguous(at::MemoryFormat::ChannelsLast),
                   w = leaf({5, 3, 1, 1}).detach();
  const auto ops = [&] {
    std::vector<std::string> names;
    const Pair pair = capture(f, x, w);
    for (const Node& node : pair.forward.nodes()) names.push_back(std::string(node.op.name()));
    return names;
  };
  std::vector<std::string> expected;
  {
    const torch::NoGradGuard guard;
    expected = ops();
  }
  const c10::InferenceMode guard;
  EXPECT_EQ(ops(), expected);
  const at::Tensor got = aot_function(f)(x, w), eager = f(x, w);
  EXPECT_TRUE(at::equal(got, eager));
  EXPECT_EQ(got.strides(), eager.strides());
}

TEST(GradModes, ViewsTakenUnderNoGradAreTakenSoAgain) {
  expect_as_eager(without_grad, [](const Tensors& t) -> Tensors {
    t[0].fill_(1);
    const torch::NoGradGuard guard;
    return {t[0].view({-1}), t[1] * 2};
  });
  expect_as_eager(non_leaves(two), [](const Tensors& t) -> Tensors {
    at::Tensor view;
    {
      const torch::NoGradGuard guard;
      view = t[0].view({-1});
    }
    return {view, t[0] * t[1]};
  });
}

TEST(GradModes, StepOfAViewTakenUnderNoGradStaysSo) {
  expect_as_eager(cloned(), [](const Tensors& t) -> Tensors {
    t[0].add_(1);
    at::Tensor windows;
    {
      const at::NoGradGuard guard;
      windows = t[0].unfold(0, 2, 1);
    }
    return {windows.unsqueeze(3)};
  });
}

TEST(KernelModes, ModesOfKernels) {
  const auto f = aot_function([](const at::Tensor& x) { return torch::empty({3}) + x; });
  f(torch::ones({3}));
  auto& context = at::globalContext();
  context.setDeterministicAlgorithms(true, false);
  context.setDeterministicFillUninitializedMemory(true);
  EXPECT_TRUE(f(torch::ones({3})).isnan().all().item<bool>());
  EXPECT_NE(f.stats().last_miss.find("deterministic algorithms was off, is on"), std::string::npos);
  context.setDeterministicAlgorithms(false, false);
}

}  // namespace
}  // namespace diptych::testing
