// Random numbers that a compiled function draws.
#include "testing/eager_check.h"

namespace diptych::testing {
namespace {

Tensors one_leaf() { return {torch::arange(12.0).mul(0.37).cos().reshape({3, 4}).to(torch::kFloat).requires_grad_()}; }

std::vector<Partitioner> partitioners() {
  return {default_partition(), min_cut(), memory_budget(0), memory_budget(0.5), memory_budget(1)};
}

TEST(RandomNumbers, DropoutDrawsAsEagerAndKeepsOneMask) {
  for (const auto& partition : partitioners()) {
    SCOPED_TRACE(partition.name);
    CheckOptions options;
    options.aot.partition = partition;
    expect_as_eager(
        one_leaf,
        [](const Tensors& t) -> Tensors {
          return {torch::dropout(t[0].sin(), 0.5, true) * t[0], torch::dropout(t[0], 0.2, true).exp()};
        },
        options);
  }
}

TEST(RandomNumbers, UnusedDrawsStillAdvanceTheGenerator) {
  const auto f = aot_function([](const at::Tensor& x) {
    (void)torch::rand({3});
    return x + torch::randn({4});
  });
  const at::Tensor x = torch::zeros({4});
  torch::manual_seed(3);
  (void)torch::rand({3});
  const at::Tensor expected = torch::randn({4});
  const at::Tensor next = torch::rand({1});
  for (int i = 0; i < 2; ++i) {
    torch::manual_seed(3);
    EXPECT_TRUE(at::equal(f(x), expected));
    EXPECT_TRUE(at::equal(torch::rand({1}), next));
  }
}

TEST(RandomNumbers, EveryCallDrawsAnew) {
  const auto f = aot_function([](const at::Tensor& x) { return x + torch::rand({4}); });
  const at::Tensor x = torch::zeros({4});
  EXPECT_FALSE(at::equal(f(x), f(x)));
}

TEST(RandomNumbers, CaptureDrawsNothing) {
  torch::manual_seed(5);
  const at::Tensor expected = torch::rand({2});
  torch::manual_seed(5);
  capture([](const at::Tensor& x) { return torch::dropout(x, 0.5, true); }, torch::ones({3}).requires_grad_());
  EXPECT_TRUE(at::equal(torch::rand({2}), expected));
}

TEST(RandomNumbers, SecondOrderUsesTheSameMask) {
  const auto g = [](const at::Tensor& x) { return (torch::dropout(x.pow(3), 0.5, true) * x).sum(); };
  const auto f = aot_function(g);
  const auto second = [](const auto& function) {
    torch::manual_seed(11);
    const at::Tensor x = one_leaf()[0].detach().requires_grad_();
    const at::Tensor first = torch::autograd::grad({function(x)}, {x}, {}, true, true)[0];
    return std::vector<at::Tensor>{first, torch::autograd::grad({first.pow(2).sum()}, {x})[0], torch::rand({2})};
  };
  const auto expected = second(g);
  const auto got = second(f);
  EXPECT_TRUE(same_tensors(got, expected, kClose));
}

TEST(RandomNumbers, AGeneratorOfTheCallersOwn) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(42);
  auto twin = at::make_generator<at::CPUGeneratorImpl>(42);
  const auto f = aot_function([&](const at::Tensor& x) { return x + at::rand({3}, generator); });
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(at::equal(f(torch::zeros({3})), at::rand({3}, twin)));
}

TEST(RandomNumbers, SeedsInsideTheFunctionAreRefused) {
  const auto seeds = aot_function([](const at::Tensor& x) {
    torch::manual_seed(1);
    return x + at::rand({3});
  });
  expect_error<UserError>([&] { seeds(torch::zeros({3})); }, "seeds the default generator");
  const auto repeats = aot_function([](const at::Tensor& x) {
    auto generator = at::detail::getDefaultCPUGenerator();
    const at::Tensor state = generator.get_state(), first = at::rand({3});
    generator.set_state(state);
    return x + first + at::rand({3});
  });
  expect_error<UserError>([&] { repeats(torch::zeros({3})); }, "seeds the default generator");
  const auto makes = aot_function(
      [](const at::Tensor& x) { return x + at::rand({3}, at::make_generator<at::CPUGeneratorImpl>(42)).sin(); });
  expect_error<UserError>([&] { makes(torch::zeros({3})); }, "aten.rand.generator draws from a generator");
}

TEST(RandomNumbers, ACaptureLeavesTheGeneratorAsItWas) {
  torch::manual_seed(5);
  const auto seed = at::detail::getDefaultCPUGenerator().current_seed();
  const at::Tensor state = at::detail::getDefaultCPUGenerator().get_state();
  (void)capture([](const at::Tensor& x) { return x + at::rand({3}); }, torch::zeros({3}));
  EXPECT_EQ(at::detail::getDefaultCPUGenerator().current_seed(), seed);
  EXPECT_TRUE(at::equal(at::detail::getDefaultCPUGenerator().get_state(), state));
}

}  // namespace
}  // namespace diptych::testing
