// What functions do inside checkpoint regions: writes, gradients, exceptions, draws, autocast, statistics.
#include <ATen/autocast_mode.h>

#include "semantics/checkpoint_blocks.h"

namespace diptych::testing {

using namespace detail;
namespace {

TEST(CheckpointRegions, ViewsAndInPlaceOperatorsInside) {
  const auto function = [](const Tensors& t) -> Tensors {
    at::Tensor x = t[0].clone();
    for (int i = 0; i < 2; ++i) {
      const CheckpointRegion region;
      at::Tensor y = torch::mm(x, t[1]);
      y.select(0, 1).mul_(2).sin_();
      y.narrow(1, 0, 3).copy_(x.narrow(1, 1, 3).exp());
      x.add_(y.view({-1}).tanh_().view_as(x));
    }
    x.t().select(0, 0).mul_(x.select(1, 1));
    return {x.relu(), x.sin()};
  };
  for (const auto& partition : partitioners()) {
    SCOPED_TRACE(partition.name);
    CheckOptions options;
    options.aot.partition = partition;
    expect_as_eager([] { return block_leaves(1); }, function, options);
  }
}

TEST(CheckpointRegions, AnArgumentThatIsChangedAfterwards) {
  const auto function = [](const Tensors& t) -> Tensors {
    const at::Tensor y = checkpoint(save_nothing(), [&](const at::Tensor& x) { return (x * t[0]).sin().exp(); })(t[1]);
    t[1].add_(1);
    return {y};
  };
  expect_as_eager([] { return Tensors{waves({3, 4}, 0.3).requires_grad_(), waves({3, 4}, 0.9)}; }, function);
}

TEST(CheckpointRegions, NoGradDetachAndGradientsInside) {
  const auto function = [](const Tensors& t) -> Tensors {
    const auto inner = [&](const at::Tensor& x) {
      at::Tensor scale;
      {
        const at::NoGradGuard no_grad;
        scale = x.abs().max().exp();
      }
      const at::Tensor y = torch::mm(x, t[1]).tanh();
      const at::Tensor slope = torch::autograd::grad({y.sum()}, {x}, {}, true, true)[0];
      return y * scale + slope.sin() * y.detach();
    };
    return {checkpoint(save_nothing(), inner)(t[0]).sum()};
  };
  for (const auto& partition : partitioners()) {
    SCOPED_TRACE(partition.name);
    CheckOptions options;
    options.aot.partition = partition;
    expect_as_eager([] { return block_leaves(1); }, function, options);
  }
}

TEST(CheckpointRegions, BackwardsOfSomeOutputsOnly) {
  const auto f = aot_function([](const at::Tensor& x, const at::Tensor& w) {
    const CheckpointRegion region;
    const at::Tensor h = torch::mm(x, w).tanh();
    return std::make_tuple(h.sin(), torch::mm(h, w).exp());
  });
  const auto eager = [](const at::Tensor& x, const at::Tensor& w) {
    const at::Tensor h = torch::mm(x, w).tanh();
    return std::make_tuple(h.sin(), torch::mm(h, w).exp());
  };
  for (const int which : {0, 1, 0}) {
    const auto run = [&](const auto& function) {
      auto leaves = block_leaves(1);
      const auto [a, b] = function(leaves[0], leaves[1]);
      (which == 0 ? a : b).sum().backward();
      return Tensors{leaves[0].grad(), leaves[1].grad()};
    };
    const auto got = run(f);
    const auto wanted = run(eager);
    EXPECT_TRUE(same_tensors(got, wanted, kClose)) << which;
  }
}

TEST(CheckpointRegions, AnExceptionInsideLeavesNothingBehind) {
  const auto throws = [](const at::Tensor& x) -> at::Tensor {
    const CheckpointRegion outer;
    const CheckpointRegion inner(save_matrix_products());
    throw std::runtime_error("mine");
  };
  EXPECT_THROW(capture(throws, torch::ones({2})), std::runtime_error);
  const Pair pair = capture([](const at::Tensor& x) { return x.sin(); }, torch::ones({2}).requires_grad_());
  EXPECT_EQ(pair.code().find("region"), std::string::npos) << pair.code();
  // Caught inside the function, it ends the region and nothing else.
  const Pair caught = capture(
      [&](const at::Tensor& x) {
        try {
          throws(x);
        } catch (const std::runtime_error&) {
        }
        return x.sin();
      },
      torch::ones({2}).requires_grad_());
  EXPECT_EQ(caught.code().find("region"), std::string::npos) << caught.code();
}

TEST(CheckpointRegions, DoubleBackward) {
  torch::manual_seed(0);
  const Tensors leaves{torch::randn({3, 4}, torch::kDouble).requires_grad_(),
                       torch::randn({4, 4}, torch::kDouble).mul(0.5).requires_grad_()};
  const auto function = [](const Tensors& t) -> Tensors {
    const auto inner = [&](const at::Tensor& x) { return torch::mm(x.sin(), t[1]).tanh(); };
    return {checkpoint(save_nothing(), inner)(checkpoint(save_nothing(), inner)(t[0]))};
  };
  for (const auto& partition : partitioners()) {
    SCOPED_TRACE(partition.name);
    expect_gradients_right(leaves, function, /*second_order=*/true, {.partition = partition});
  }
}

TEST(CheckpointState, DropoutInARegionUsesOneMask) {
  const auto function = [](const Tensors& t) -> Tensors {
    const auto inner = [&](const at::Tensor& x) { return torch::mm(torch::dropout(x.sin(), 0.5, true), t[1]).tanh(); };
    return {checkpoint(save_nothing(), inner)(checkpoint(save_nothing(), inner)(t[0])), torch::rand({2})};
  };
  for (const auto& partition : {default_partition(), min_cut(), memory_budget(0), memory_budget(0.5)}) {
    SCOPED_TRACE(partition.name);
    CheckOptions options;
    options.aot.partition = partition;
    expect_as_eager([] { return block_leaves(1); }, function, options);
    const Pair pair = captured(function, block_leaves(1), options.aot);
    for (const Node& node : pair.backward.nodes()) EXPECT_FALSE(draws_random(node));
    // Two masks and the second region's input.
    EXPECT_EQ(residual_bytes(pair.split), 3 * kActivation) << pair.explain();
  }
}

TEST(CheckpointState, SecondOrderOfARegionUsesTheSameMask) {
  const auto g = [](const at::Tensor& x) {
    const CheckpointRegion region;
    return (torch::dropout(x.pow(3), 0.5, true) * x).sum();
  };
  const auto second = [](const auto& function) {
    torch::manual_seed(11);
    const at::Tensor x = waves({3, 4}, 0.4).requires_grad_();
    const at::Tensor first = torch::autograd::grad({function(x)}, {x}, {}, true, true)[0];
    return torch::autograd::grad({first.sum()}, {x})[0];
  };
  EXPECT_TRUE(at::equal(second(aot_function(g)), second(g)));
}

TEST(CheckpointState, AutocastInsideARegion) {
  const auto function = [](const Tensors& t) -> Tensors {
    at::Tensor x = t[0];
    for (int i = 0; i < 2; ++i) {
      x = checkpoint(save_nothing(), [&](const at::Tensor& start) {
        at::autocast::set_autocast_enabled(c10::kCPU, true);
        at::Tensor y = torch::gelu(torch::mm(start, t[1 + i]));
        at::autocast::set_autocast_enabled(c10::kCPU, false);
        at::autocast::clear_cache();
        return torch::mm(y.to(torch::kFloat).tanh(), t[1 + i]) + start;
      })(x);
    }
    return {x.sum()};
  };
  for (const auto& partition : partitioners()) {
    SCOPED_TRACE(partition.name);
    CheckOptions options;
    options.aot.partition = partition;
    expect_as_eager([] { return block_leaves(1); }, function, options);
    EXPECT_EQ(saved_bytes(function, block_leaves(1), partition), kActivation);
  }
}

TEST(CheckpointState, BatchNormStatisticsUpdateOnce) {
  const auto leaves = [] {
    return Tensors{waves({kRows, kWidth}, 0.7).requires_grad_(), waves({kWidth}, 0.3).requires_grad_(),
                   waves({kWidth}, 0.5).requires_grad_(), torch::zeros({kWidth}), torch::ones({kWidth})};
  };
  const auto function = [](const Tensors& t) -> Tensors {
    const auto inner = [&](const at::Tensor& x) {
      return torch::batch_norm(x.sin(), t[1], t[2], t[3], t[4], /*training=*/true, 0.1, 1e-5, false).tanh() + x;
    };
    return {checkpoint(save_nothing(), inner)(checkpoint(save_nothing(), inner)(t[0])).sum()};
  };
  for (const auto& partition : partitioners()) {
    SCOPED_TRACE(partition.name);
    CheckOptions options;
    options.aot.partition = partition;
    expect_as_eager(leaves, function, options);
  }
}

}  // namespace
}  // namespace diptych::testing
