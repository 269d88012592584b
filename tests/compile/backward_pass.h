// Leaves and one backward pass, for tests that compare what passes leave in them.
#pragma once
#include <torch/types.h>

#include <functional>
#include <initializer_list>
#include <vector>

#include "testing/tensors.h"

namespace diptych::testing {

using Loss = std::function<at::Tensor(const Tensors&)>;

/// Normal numbers in float64, the same each time.
inline Tensors leaves(std::initializer_list<std::vector<int64_t>> sizes) {
  torch::manual_seed(7);
  Tensors made;
  for (const auto& size : sizes) made.push_back(torch::randn(size, torch::kFloat64).requires_grad_());
  return made;
}

/// The gradients of a loss that its backward leaves in the inputs.
inline Tensors gradients_of(const Loss& loss, const Tensors& inputs) {
  for (const at::Tensor& input : inputs) input.mutable_grad().reset();
  torch::manual_seed(3);
  loss(inputs).backward();
  Tensors gradients;
  for (const at::Tensor& input : inputs) {
    gradients.push_back(input.grad().defined() ? input.grad().clone() : at::Tensor());
  }
  return gradients;
}

}  // namespace diptych::testing
