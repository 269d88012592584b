#include <torch/nn.h>
#include "hops/live_bytes.h"
#include "hops/unrolled.h"

namespace diptych::testing {
namespace {

at::Tensor block(const at::Tensor& x, const at::Tensor& w) { return torch::tanh(x.mm(w)).sin() + x; }

Tensors deep(const Tensors& t) {
  const auto checkpointed = checkpoint([&](const at::Tensor& x) { return block(x, t[1]); });
  at::Tensor x = t[0];
  for (int i = 0; i < 3; ++i) x = checkpointed(x);
  return {x};
}

TEST(Checkpoint, GradientsAreRightToTheSecondOrder) {
  expect_gradients_right({leaf64({2, 3}), leaf64({3, 3}, 0.4)}, deep);
  const Tensors t{leaf64({2, 3}), leaf64({3, 3}, 0.4)};
  at::Tensor plain = t[0];
  for (int i = 0; i < 3; ++i) plain = block(plain, t[1]);
  const auto second = [&](const at::Tensor& y) {
    const auto g = torch::autograd::grad({y.square().sum()}, t, {}, true, true);
    return torch::autograd::grad({g[0].sum() + g[1].square().sum()}, t);
  };
  const auto ours = second(deep(t)[0]), theirs = second(plain);
  EXPECT_TRUE(same_tensors(ours, theirs, {.rtol = 1e-12, .atol = 1e-13}));
}

// The bytes that eager's graph behind `y` keeps alive beside inputs: all that is freed with it.
int64_t kept_bytes(const std::function<at::Tensor()>& forward) {
  const LiveBytes live;
  const at::Tensor y = forward();
  return live.now() - static_cast<int64_t>(y.nbytes());
}

TEST(Checkpoint, InEagerKeepsWhatThePolicySays) {
  const at::Tensor x = leaf64({64, 64}), w = leaf64({64, 64}, 0.4);
  const int64_t one = static_cast<int64_t>(x.nbytes());
  const auto kept = [&](const CheckpointPolicy& policy) {
    return kept_bytes([&] { return checkpoint([&](const at::Tensor& t) { return block(t, w); }, policy)(x); });
  };
  EXPECT_EQ(kept(save_nothing()), 0);
  EXPECT_EQ(kept(save_matrix_products()), one);
  // A mask is drawn once and kept; nothing else is.
  const auto dropped = checkpoint([&](const at::Tensor& t) { return torch::dropout(block(t, w), 0.5, true).sin(); });
  EXPECT_EQ(kept_bytes([&] { return dropped(x); }), one);
}

TEST(Checkpoint, BuffersChangeOnceAndMasksAreOne) {
  torch::manual_seed(0);
  torch::nn::BatchNorm1d norm(3);
  norm->to(torch::kFloat64);
  const at::Tensor x = leaf64({4, 3});
  const auto body = [&](const at::Tensor& t) { return torch::dropout(norm(t), 0.5, true).sin(); };
  const auto run = [&](const auto& f) {
    norm->reset_running_stats();
    torch::manual_seed(1);
    const at::Tensor y = f(x);
    const auto g = torch::autograd::grad({y.square().sum()}, {x})[0];
    return Tensors{y, g, norm->running_mean.clone(), norm->num_batches_tracked.clone(), torch::rand({1})};
  };
  const Tensors theirs = run(body), ours = run(checkpoint(body));
  EXPECT_TRUE(same_tensors(ours, theirs, kClose));
}

TEST(Checkpoint, NestedAndInBodies) {
  const auto inner = checkpoint([](const at::Tensor& x) { return x.sin() * x; });
  const auto outer = checkpoint([&](const at::Tensor& x) { return inner(x).cos() + inner(x * 2); });
  expect_gradients_right({leaf64({3})}, [&](const Tensors& t) -> Tensors { return {outer(t[0])}; });
  expect_gradients_right({leaf64({3})}, [&](const Tensors& t) -> Tensors {
    const auto step = [&](const at::Tensor& h, const std::tuple<>&) {
      const at::Tensor next = outer(h);
      return std::pair{next, next};
    };
    return {scan(step, t[0], std::tuple<>(), {.length = 3}).second};
  });
}

TEST(Checkpoint, RefusesByName) {
  const at::Tensor x = leaf64({3});
  const auto unknown =
      checkpoint([](const at::Tensor& t) { return name_residual(t.sin(), "a").cos(); }, save_names({"b"}));
  expect_error<UserError>([&] { unknown(x).sum().backward(); }, "'b'");
  expect_error<UserError>([&] { checkpoint([](const at::Tensor& t) { return t; })(at::Tensor()); },
                          "'arg0' is an undefined");
}

}  // namespace
}  // namespace diptych::testing
