// Captured steps on parameters and gradients of all kinds: unused, tied, undefined, aliased, large, of several dtypes.
#include <ATen/Parallel.h>
#include <torch/optim.h>
#include "compile/step_check.h"
#include "diptych/backward/backward_capture.h"

namespace diptych::testing {
namespace {

namespace ag = torch::autograd;
namespace optim = torch::optim;

using StepParameters = Step;

TEST_F(StepParameters, LeavesUnusedParametersWithoutStateAndGradient) {
  const Tensors p = layer();
  const at::Tensor unused = torch::ones({5}).requires_grad_(), frozen = torch::ones({5});
  const auto optimizer = adamw({p[0], unused, p[1], frozen});
  const auto step = capture_step(*optimizer, {.max_gradient_norm = 1.0});
  for (int i = 0; i < 3; ++i) step(loss_of(p));
  EXPECT_TRUE(unused.equal(torch::ones({5})));
  EXPECT_TRUE(frozen.equal(torch::ones({5})));
  EXPECT_EQ(optimizer->state().size(), 2);
}

TEST_F(StepParameters, UpdatesTiedParametersOnce) {
  expect_like_eager({torch::randn({3, 3}, torch::kFloat64)}, adamw,
                    [](const Tensors& p) { return (p[0].matmul(p[0].t()).tanh() * p[0]).sum(); });
}

TEST_F(StepParameters, SkipsAParameterWhoseHookGivesNothing) {
  struct Nothing final : ag::FunctionPreHook {
    ag::variable_list operator()(const ag::variable_list& gradients) override {
      return wanted ? gradients : ag::variable_list(gradients.size());
    }
    static bool& wanted_flag() {
      static bool flag = true;
      return flag;
    }
    const bool& wanted = wanted_flag();
  };
  const Tensors values{torch::randn({3}, torch::kFloat64), torch::randn({3}, torch::kFloat64)};
  const auto train = [&](bool is_captured) {
    const Tensors p = new_leaves(values);
    auto optimizer = adamw(p);
    const StepOptions options{.max_gradient_norm = 0.1, .keep_gradients = true};
    const auto step = capture_step(*optimizer, options);
    for (int i = 0; i < 6; ++i) {
      Nothing::wanted_flag() = i % 2 == 1;  // the first step has none
      const at::Tensor y = p[0] * 2;
      y.grad_fn()->add_pre_hook(std::make_unique<Nothing>());
      const at::Tensor loss = (y * p[1]).sum() + p[1].exp().sum();
      if (is_captured) {
        step(loss);
      } else {
        eager_step(*optimizer, loss, options);
      }
      EXPECT_EQ(p[0].grad().defined(), Nothing::wanted_flag());
      EXPECT_EQ(state_of(*optimizer, p[0]).empty(), i == 0);
    }
    return std::pair{std::move(optimizer), p};
  };
  const auto [eager, expected] = train(false);
  const auto [captured, got] = train(true);
  expect_same_training(*captured, got, *eager, expected, 1e-12);
  EXPECT_EQ(state_of(*captured, got[0])[0].item<int64_t>(), 3);
  EXPECT_EQ(backward_capture::statistics().captures, 1);
}

TEST_F(StepParameters, TakesGradientsThatAreOneTensorOrExpanded) {
  const auto sgd = [](const Tensors& p) {
    return std::make_unique<optim::SGD>(p, optim::SGDOptions(0.1).momentum(0.9));
  };
  const Tensors values{torch::randn({3, 4}, torch::kFloat64), torch::randn({3, 4}, torch::kFloat64)};
  expect_like_eager(values, sgd, [](const Tensors& p) { return (p[0] + p[1]).sum(); });
  expect_like_eager(values, sgd, [](const Tensors& p) { return (p[0] + p[1]).exp().sum(); }, {.keep_gradients = true});
}

/// Its backward gives what it has saved, the very tensors.
struct Product : ag::Function<Product> {
  static at::Tensor forward(ag::AutogradContext* context, const at::Tensor& a, const at::Tensor& b) {
    context->save_for_backward({a, b});
    return (a * b).sum();
  }
  static ag::tensor_list backward(ag::AutogradContext* context, const ag::tensor_list& /*gradients*/) {
    const auto saved = context->get_saved_variables();
    return {saved[1], saved[0]};
  }
};

TEST_F(StepParameters, UpdatesFromGradientsThatAreOtherParameters) {
  const auto sgd = [](const Tensors& p) { return std::make_unique<optim::SGD>(p, optim::SGDOptions(0.1)); };
  expect_like_eager({torch::randn({3}, torch::kFloat64), torch::randn({3}, torch::kFloat64)}, sgd,
                    [](const Tensors& p) { return Product::apply(p[0], p[1]); });
}

TEST_F(StepParameters, TakesParametersOfSeveralDtypes) {
  const Tensors values{torch::randn({3, 4}), torch::randn({4}, torch::kFloat64), torch::randn({4}),
                       torch::randn({4}).to(torch::kBFloat16), torch::randn({4}).to(torch::kHalf)};
  const auto loss = [](const Tensors& p) {
    at::Tensor sum = torch::zeros({}, torch::kFloat64);
    for (const at::Tensor& tensor : p) sum = sum + tensor.to(torch::kFloat64).tanh().sum();
    return sum;
  };
  expect_like_eager(values, adamw, loss, {}, 2e-2);
  expect_like_eager({values[0], values[1], values[2]}, adamw, loss, {.max_gradient_norm = 0.5}, 1e-5);
}

TEST_F(StepParameters, SharesTheWorkOfLargeParametersAmongThreads) {
  const int threads = at::get_num_threads();
  at::set_num_threads(3);
  Tensors values;
  for (const int64_t size : {1, 63, 64, 100000, 65, 7, 33333}) values.push_back(torch::randn({size}, torch::kFloat64));
  const auto loss = [](const Tensors& p) {
    at::Tensor sum = torch::zeros({}, torch::kFloat64);
    for (const at::Tensor& tensor : p) sum = sum + (tensor * tensor.tanh()).sum();
    return sum;
  };
  expect_like_eager(values, adamw, loss, {.max_gradient_norm = 1.0});
  at::set_num_threads(threads);
}

TEST_F(StepParameters, TakesParametersThatOwnOnlyAPartOfTheirMemory) {
  const Tensors wide{torch::randn({4, 6}, torch::kFloat64), torch::randn({4, 6}, torch::kFloat64)};
  const auto leaf = [](const at::Tensor& tensor) { return tensor.clone().narrow(1, 1, 3).detach().requires_grad_(); };
  const Tensors got{leaf(wide[0]), leaf(wide[1])}, expected{leaf(wide[0]), leaf(wide[1])};
  const auto captured = adamw(got), eager = adamw(expected);
  const auto step = capture_step(*captured);
  for (int i = 0; i < 3; ++i) {
    step((got[0] * got[1]).tanh().sum());
    eager_step(*eager, (expected[0] * expected[1]).tanh().sum(), {});
  }
  expect_same_training(*captured, got, *eager, expected, 1e-12);
}

TEST_F(StepParameters, FollowsParametersThatAreAddedLater) {
  const Tensors expected = layer(), got = new_leaves(expected);
  optim::SGD eager({expected[0]}, optim::SGDOptions(0.1)), captured({got[0]}, optim::SGDOptions(0.1));
  const auto step = capture_step(captured);
  for (int i = 0; i < 4; ++i) {
    if (i == 2) {
      eager.add_param_group(optim::OptimizerParamGroup({expected[1]}));
      captured.add_param_group(optim::OptimizerParamGroup({got[1]}));
    }
    eager_step(eager, loss_of(expected), {});
    step(loss_of(got));
    got[1].mutable_grad().reset();
    expected[1].mutable_grad().reset();
  }
  expect_same_training(captured, got, eager, expected, 1e-12);
}

}  // namespace
}  // namespace diptych::testing
