// Deterministic inputs.
#pragma once
#include "testing/eager_check.h"

namespace diptych::testing {

/// Numbers between -1 and 1, none like another; `shift` gives others.
inline at::Tensor values(at::IntArrayRef sizes, double shift = 0) {
  int64_t numel = 1;
  for (const auto size : sizes) numel *= size;
  return torch::arange(numel, torch::kFloat).mul(0.37).add(shift).cos().reshape(sizes);
}

/// The same as a leaf that requires grad.
inline at::Tensor leaf(at::IntArrayRef sizes, double shift = 0) { return values(sizes, shift).requires_grad_(); }

/// Both in float64.
inline at::Tensor values64(at::IntArrayRef sizes, double shift = 0) { return values(sizes, shift).to(torch::kFloat64); }
inline at::Tensor leaf64(at::IntArrayRef sizes, double shift = 0) { return values64(sizes, shift).requires_grad_(); }

}  // namespace diptych::testing
