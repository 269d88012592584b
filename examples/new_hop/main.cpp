// Uses fori_loop, an operator that is not the library's, as one of the library's.
#include <diptych/diptych.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/types.h>

#include <iostream>

#include "fori_loop.h"

namespace dp = diptych;

int main() {
  const auto w = torch::full({3}, 0.5).requires_grad_();
  // The sum over i of i * w^i, by Horner's rule from the largest i down.
  const auto series = [&](const at::Tensor& x) {
    const auto term = [&](const at::Tensor& i, const at::Tensor& sum) { return (sum + (9 - i)) * x; };
    return example::fori_loop(0, 9, term, torch::zeros_like(x)).sum();
  };
  // Where no gradient is recorded the node is fori_loop's own; where one is, the scan that it amounts to.
  std::cout << dp::capture(series, w.detach()).forward.code() << dp::capture(series, w).backward.code();
  const auto compiled = dp::aot_function(series);
  const auto gradient = torch::autograd::grad({compiled(w)}, {w}, {}, true, true)[0];
  const auto second = torch::autograd::grad({gradient.sum()}, {w})[0];
  std::cout << "value " << compiled(w).item<float>() << ", gradient " << gradient[0].item<float>()
            << ", second derivative " << second[0].item<float>() << '\n';
}
