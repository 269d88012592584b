#include "compile/step_check.h"
#include <torch/nn.h>
#include <torch/optim.h>

#include "diptych/backward/backward_capture.h"

namespace diptych::testing {

namespace optim = torch::optim;

std::optional<double> eager_step(optim::Optimizer& optimizer, const at::Tensor& loss, const StepOptions& options) {
  optimizer.zero_grad();
  loss.backward();
  std::optional<double> norm;
  if (options.max_gradient_norm) {
    Tensors all;
    for (const auto& group : optimizer.param_groups()) {
      all.insert(all.end(), group.params().begin(), group.params().end());
    }
    norm = torch::nn::utils::clip_grad_norm_(all, *options.max_gradient_norm, options.norm_type);
  }
  optimizer.step();
  return norm;
}

namespace {

template <class State>
Tensors adam_state(const State& state) {
  Tensors tensors{torch::tensor(state.step()), state.exp_avg(), state.exp_avg_sq()};
  if (state.max_exp_avg_sq().defined()) tensors.push_back(state.max_exp_avg_sq());
  return tensors;
}

}  // namespace

Tensors state_of(const optim::Optimizer& optimizer, const at::Tensor& parameter) {
  const auto found = optimizer.state().find(parameter.unsafeGetTensorImpl());
  if (found == optimizer.state().end()) return {};
  if (const auto* sgd = dynamic_cast<const optim::SGDParamState*>(found->second.get())) return {sgd->momentum_buffer()};
  if (const auto* adam = dynamic_cast<const optim::AdamParamState*>(found->second.get())) return adam_state(*adam);
  return adam_state(dynamic_cast<const optim::AdamWParamState&>(*found->second));
}

void expect_same_training(const optim::Optimizer& got, const Tensors& got_parameters, const optim::Optimizer& expected,
                          const Tensors& expected_parameters, double tolerance) {
  const Likeness how{.of_largest = tolerance};
  EXPECT_TRUE(same_tensors(got_parameters, expected_parameters, how));
  EXPECT_EQ(got.state().size(), expected.state().size());
  for (size_t i = 0; i < got_parameters.size(); ++i) {
    SCOPED_TRACE("state of parameter " + std::to_string(i));
    EXPECT_TRUE(same_tensors(state_of(got, got_parameters[i]), state_of(expected, expected_parameters[i]), how));
  }
}

void Step::SetUp() {
  torch::manual_seed(0);
  backward_capture::reset();
}

Tensors layer() { return new_leaves({torch::randn({3, 4}, torch::kFloat64), torch::randn({4}, torch::kFloat64)}); }

at::Tensor loss_of(const Tensors& p) { return (torch::ones({2, 3}, torch::kFloat64).matmul(p[0]) + p[1]).tanh().sum(); }

std::unique_ptr<optim::Optimizer> adamw(const Tensors& parameters) {
  return std::make_unique<optim::AdamW>(parameters, optim::AdamWOptions(0.05));
}

void expect_like_eager(const Tensors& values, const MakeOptimizer& make,
                       const std::function<at::Tensor(const Tensors&)>& loss, const StepOptions& options,
                       double tolerance) {
  const Tensors expected = new_leaves(values), got = new_leaves(values);
  const auto eager = make(expected), captured = make(got);
  const auto step = capture_step(*captured, options);
  for (int i = 0; i < 4; ++i) {
    eager_step(*eager, loss(expected), options);
    step(loss(got));
  }
  expect_same_training(*captured, got, *eager, expected, tolerance);
}

}  // namespace diptych::testing
