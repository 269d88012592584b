// A model, its optimizers, and what a training is compared by.
#pragma once
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "diptych/training/xla_step.h"
#include "diptych/tree/fields.h"
#include "testing/expect_error.h"

namespace diptych::testing {

using Optimizer = std::unique_ptr<torch::optim::Optimizer>;

struct Mlp {
  at::Tensor w1, b1, w2;
  DIPTYCH_FIELDS(w1, b1, w2)
  std::vector<at::Tensor> parameters() const { return {w1, b1, w2}; }
};

/// A model of `width` hidden units in float64, the same for each call.
inline Mlp make_mlp(int64_t width = 8) {
  at::manual_seed(5);
  const auto leaf = [](at::IntArrayRef sizes) { return at::randn(sizes, at::kDouble).mul_(0.4).requires_grad_(); };
  return {leaf({4, width}), leaf({width}), leaf({width, 2})};
}
inline at::Tensor make_batch(int64_t rows, int64_t seed) {
  at::manual_seed(seed);
  return at::randn({rows, 4}, at::kDouble);
}
inline at::Tensor mlp_loss(const Mlp& model, const at::Tensor& x) {
  const at::Tensor y = at::tanh(at::addmm(model.b1, x, model.w1)).mm(model.w2);
  return (y - x.narrow(1, 0, 2)).square().mean();
}

/// An optimizer of two groups with learning rates of their own.
template <class Kind, class Options>
Optimizer two_groups(const std::vector<at::Tensor>& parameters, const Options& options) {
  std::vector<torch::optim::OptimizerParamGroup> groups;
  groups.emplace_back(std::vector<at::Tensor>(parameters.begin(), parameters.end() - 1));
  auto slower = std::make_unique<Options>(options);
  slower->lr(options.lr() / 2);
  groups.emplace_back(std::vector<at::Tensor>{parameters.back()}, std::move(slower));
  return std::make_unique<Kind>(std::move(groups), options);
}

struct OptimizerCase {
  std::string name;
  std::function<Optimizer(const std::vector<at::Tensor>&)> make;
};
inline std::vector<OptimizerCase> optimizer_cases() {
  namespace optim = torch::optim;
  const auto sgd = [](const optim::SGDOptions& options) {
    return [=](const std::vector<at::Tensor>& list) { return two_groups<optim::SGD>(list, options); };
  };
  const auto adam = [](const optim::AdamOptions& options) {
    return [=](const std::vector<at::Tensor>& list) { return two_groups<optim::Adam>(list, options); };
  };
  const auto adamw = [](const optim::AdamWOptions& options) {
    return [=](const std::vector<at::Tensor>& list) { return two_groups<optim::AdamW>(list, options); };
  };
  return {{"Sgd", sgd(optim::SGDOptions(0.1))},
          {"Momentum", sgd(optim::SGDOptions(0.1).momentum(0.9).dampening(0.2).weight_decay(0.01))},
          {"Nesterov", sgd(optim::SGDOptions(0.1).momentum(0.9).nesterov(true))},
          {"Adam", adam(optim::AdamOptions(0.05).weight_decay(0.02))},
          {"Amsgrad", adam(optim::AdamOptions(0.05).amsgrad(true).betas({0.8, 0.9}))},
          {"AdamW", adamw(optim::AdamWOptions(0.05).weight_decay(0.1))}};
}

/// One step in eager; returns the loss.
template <class F, class... A>
at::Tensor eager_step(torch::optim::Optimizer& optimizer, const F& function, const A&... arguments) {
  optimizer.zero_grad();
  const at::Tensor loss = function(arguments...);
  loss.backward();
  optimizer.step();
  return loss.detach();
}

inline void expect_near(const at::Tensor& got, const at::Tensor& expected, double tolerance = 1e-10) {
  ASSERT_EQ(got.sizes(), expected.sizes());
  EXPECT_TRUE(at::allclose(got, expected, tolerance, tolerance)) << got << "\nexpected\n" << expected;
}
inline void expect_near(const std::vector<at::Tensor>& got, const std::vector<at::Tensor>& expected,
                        double tolerance = 1e-10) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) expect_near(got[i], expected[i], tolerance);
}

}  // namespace diptych::testing
