// Two trainings of one model side by side: by torch::optim in eager, and by a captured step.
#pragma once
#include <gtest/gtest.h>
#include <torch/optim.h>
#include <torch/types.h>

#include <functional>
#include <vector>

#include "diptych/backward/step.h"
#include "testing/same_tensors.h"

namespace diptych::testing {

using MakeOptimizer = std::function<std::unique_ptr<torch::optim::Optimizer>(const Tensors& parameters)>;

/// The same values in new leaves, of the same strides.
inline Tensors new_leaves(const Tensors& values) {
  Tensors leaves;
  for (const at::Tensor& value : values) {
    leaves.push_back(
        at::empty_strided(value.sizes(), value.strides(), value.options()).copy_(value.detach()).requires_grad_());
  }
  return leaves;
}

/// zero_grad, backward, clipping and step() of eager; the norm, if there is one.
std::optional<double> eager_step(torch::optim::Optimizer& optimizer, const at::Tensor& loss,
                                 const StepOptions& options);

/// The state that an optimizer keeps for a parameter, its step number as a tensor; nothing if there is none.
Tensors state_of(const torch::optim::Optimizer& optimizer, const at::Tensor& parameter);

/// Expects parameters and state to be the same within `tolerance`, relative to the largest value of each tensor.
void expect_same_training(const torch::optim::Optimizer& got, const Tensors& got_parameters,
                          const torch::optim::Optimizer& expected, const Tensors& expected_parameters,
                          double tolerance);

/// Starts with no graphs and with known random numbers.
class Step : public ::testing::Test {
 protected:
  void SetUp() override;
};

/// The leaves of one small layer, and a loss of theirs.
Tensors layer();
at::Tensor loss_of(const Tensors& p);

std::unique_ptr<torch::optim::Optimizer> adamw(const Tensors& parameters);

/// Trains leaves of these values in eager and by a captured step, and expects the same.
void expect_like_eager(const Tensors& values, const MakeOptimizer& make,
                       const std::function<at::Tensor(const Tensors&)>& loss, const StepOptions& options = {},
                       double tolerance = 1e-12);

}  // namespace diptych::testing
