// What capture_step refuses.
#include "diptych/backward/step.h"

#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/utils/lambda_post_hook.h>
#include <torch/optim.h>

#include "diptych/backward/backward_capture.h"
#include "diptych/backward/update_rules.h"
#include "testing/refusal.h"

namespace diptych::testing {
namespace {

namespace ag = torch::autograd;
namespace optim = torch::optim;

optim::AdamW adamw(const Tensors& parameters) { return optim::AdamW(parameters, optim::AdamWOptions(0.1)); }

void step_on(const Tensors& parameters, const at::Tensor& loss, const StepOptions& options = {}) {
  auto optimizer = adamw(parameters);
  capture_step(optimizer, options)(loss);
}

TEST(StepErrors, AnOptimizerWithoutARule) {
  optim::RMSprop optimizer({ones_leaf({2})});
  expect_refusal([&] { capture_step(optimizer); }, {"[step] got an optimizer of type torch::optim::RMSprop",
                                                    "expected torch::optim::SGD, Adam or AdamW"});
  struct Mine final : optim::SGD {
    using optim::SGD::SGD;
  } mine(Tensors{ones_leaf({2})}, optim::SGDOptions(0.1));
  expect_refusal([&] { capture_step(mine); }, {"[step] got an optimizer of type", "Mine"});
}

TEST(StepErrors, BoundsAndNormsThatAreNotPositive) {
  auto optimizer = adamw({ones_leaf({2})});
  expect_refusal([&] { capture_step(optimizer, {.max_gradient_norm = 0}); }, {"[step] max_gradient_norm is 0"});
  expect_refusal([&] { capture_step(optimizer, {.max_gradient_norm = std::nan("")}); },
                 {"[step] max_gradient_norm is nan"});
  expect_refusal([&] { capture_step(optimizer, {.norm_type = 0}); }, {"[step] norm_type is 0"});
}

TEST(StepErrors, ParametersThatNoKernelTakes) {
  const at::Tensor x = ones_leaf({2});
  const at::Tensor complex = torch::ones({2}, torch::kComplexFloat).requires_grad_();
  expect_refusal(
      [&] {
        step_on({x, complex}, x.sum());
      },
      {"[step] parameter 1 of group 0 of the optimizer is ComplexFloat of layout Strided on cpu"});
  auto optimizer = adamw({x});
  optimizer.param_groups()[0].params().emplace_back();
  const auto step = capture_step(optimizer);
  expect_refusal([&] { step(x.sum()); }, {"[step] parameter 1 of group 0 of the optimizer is an undefined tensor"});
}

TEST(StepErrors, AParameterThatIsListedTwice) {
  const at::Tensor x = ones_leaf({2});
  expect_refusal([&] { step_on({x, x}, x.sum()); }, {"[step] parameter 1 of group 0 of the optimizer is listed twice"});
}

TEST(StepErrors, HooksOnTheAccumulation) {
  struct After final : ag::PostAccumulateGradHook {
    void operator()(const ag::Variable& /*tensor*/) override {}
  };
  const at::Tensor x = ones_leaf({2}), y = ones_leaf({2});
  ag::impl::set_post_acc_grad_hooks(x, std::make_unique<After>());
  expect_refusal([&] { step_on({x}, x.sum()); },
                 {"[step] parameter 0 of group 0 of the optimizer has hooks on the accumulation of its gradient"});
  const auto accumulation = ag::impl::grad_accumulator(y);
  accumulation->add_post_hook(std::make_unique<ag::utils::LambdaPostHook>(
      [](const ag::variable_list& outputs, const ag::variable_list& /*inputs*/) { return outputs; }));
  expect_refusal([&] { step_on({y}, y.sum()); },
                 {"[step] parameter 0 of group 0 of the optimizer has hooks on the accumulation of its gradient"});
}

TEST(StepErrors, StateOfAnotherModelOrWithoutWhatOptionsAskFor) {
  const at::Tensor x = ones_leaf({2});
  auto optimizer = adamw({x});
  const auto step = capture_step(optimizer);
  step(x.square().sum());
  auto& options = static_cast<optim::AdamWOptions&>(optimizer.param_groups()[0].options());
  options.amsgrad(true);
  expect_refusal([&] { step(x.square().sum()); },
                 {"[step] the optimizer's max_exp_avg_sq of parameter 0 of group 0 is undefined, expected Float"});
  options.amsgrad(false);
  auto& state = static_cast<optim::AdamWParamState&>(*optimizer.state()[x.unsafeGetTensorImpl()]);
  state.exp_avg(torch::zeros({3}));
  expect_refusal([&] { step(x.square().sum()); },
                 {"[step] the optimizer's exp_avg of parameter 0 of group 0 is Float of sizes [3], expected Float of "
                  "sizes [2]"});
}

TEST(StepErrors, CallsInsideCapturesAndInsideThemselves) {
  const at::Tensor x = ones_leaf({2});
  auto optimizer = adamw({x});
  const auto step = capture_step(optimizer);
  expect_refusal(
      [&] {
        (void)aot_function([&](const at::Tensor& t) {
          step(t.sum());
          return t;
        })(x);
      },
      {"[step] a step was called inside a function that is being captured"});
  x.register_hook([&](const at::Tensor& gradient) {
    step(gradient.sum());
    return gradient;
  });
  expect_refusal([&] { step(x.square().sum()); }, {"[step] a hook in a step's backward calls the step again"});
}

TEST(StepErrors, SparseGradients) {
  const at::Tensor weight = ones_leaf({5, 2});
  const auto loss = [&] {
    return at::embedding(weight, torch::tensor({1, 3}), -1, /*scale_grad_by_freq=*/false, /*sparse=*/true).sum();
  };
  for (const StepOptions& options : {StepOptions(), StepOptions{.max_gradient_norm = 1.0}}) {
    expect_refusal(
        [&] { step_on({weight}, loss(), options); },
        {"[step] EmbeddingBackward0 returns a gradient of layout Sparse for a parameter, expected a strided one"});
    const ag::DetectAnomalyGuard anomaly;
    expect_refusal([&] { step_on({weight}, loss(), options); },
                   {"[step] the gradient of parameter 0 of group 0 has layout Sparse, expected a strided one"});
  }
  EXPECT_TRUE(weight.equal(torch::ones({5, 2})));
}

/// Gives what it is made with in the place of the gradients.
struct Giving final : GradientTransform {
  explicit Giving(std::function<Tensors(Tensors)> give) : give(std::move(give)) {}
  std::string key() const override { return "giving " + std::to_string(reinterpret_cast<uintptr_t>(this)); }
  void is_ready(size_t /*index*/, const at::Tensor& /*gradient*/) override {}
  Tensors finish(Tensors gradients) override { return give(std::move(gradients)); }
  std::function<Tensors(Tensors)> give;
};

void step_giving(const std::function<Tensors(Tensors)>& give) {
  const at::Tensor x = ones_leaf({2});
  step_on({x}, x.square().sum(), {.transform = std::make_shared<Giving>(give)});
}

TEST(StepErrors, TransformsThatGiveOtherThanGradients) {
  expect_refusal([] { step_giving([](const Tensors&) { return Tensors(); }); },
                 {"[step] the gradient transform 'giving", "returned 0 gradients, expected 1"});
  expect_refusal([] { step_giving([](const Tensors& g) { return Tensors{g[0].sum()}; }); },
                 {"[step] the gradient transform 'giving",
                  "returned Float of sizes [] for parameter 0 of group 0, expected Float of sizes [2]"});
  const at::Tensor foreign = torch::ones({2});
  expect_refusal([&] { step_giving([&](const Tensors& g) { return Tensors{g[0] * foreign}; }); },
                 {"[backward] the step after the run reads a tensor of sizes [2] that is not among its inputs"});
}

TEST(StepErrors, ARuleThatIsNotThereIsOurFault) { EXPECT_THROW(detail::find_update_rule("adagrad"), InternalError); }

}  // namespace
}  // namespace diptych::testing
