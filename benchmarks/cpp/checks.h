// Checks of results: a benchmark's numbers mean nothing if its results are wrong, so each compares itself with eager
// once, outside the clock.
#pragma once
#include <torch/csrc/autograd/autograd.h>

#include <stdexcept>
#include <string>

#include "models.h"

namespace diptych::bench {

/// Errors: std::runtime_error says which tensor differs from eager's.
inline void expect_close(const std::string& what, const Tensors& actual, const Tensors& eager) {
  if (actual.size() != eager.size()) throw std::runtime_error(what + ": not as many results as in eager");
  for (size_t i = 0; i < eager.size(); ++i) {
    if (actual[i].defined() && at::allclose(actual[i], eager[i], /*rtol=*/1e-4, /*atol=*/1e-6)) continue;
    throw std::runtime_error(what + ": result " + std::to_string(i) + " is not what eager gives");
  }
}

/// Returns the value of a function of two tensors at two_element_inputs() and, if gradients are recorded, its
/// gradients.
template <class F>
Tensors value_and_gradients(const F& function) {
  const auto inputs = two_element_inputs();
  Tensors results{function(inputs[0], inputs[1])};
  if (!results[0].requires_grad()) return results;
  for (auto& gradient : torch::autograd::grad({results[0]}, {inputs[0], inputs[1]})) results.push_back(gradient);
  return results;
}

/// Checks an engine's version of two_elements. Errors: as expect_close.
template <class F>
void check_two_elements(const F& function) {
  expect_close("two_elements", value_and_gradients(function), value_and_gradients(two_elements));
}

}  // namespace diptych::bench
