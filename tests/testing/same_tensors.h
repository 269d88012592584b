// Whether two lists of tensors are the same, as closely as a test asks for.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "testing/tensors.h"

namespace diptych::testing {

/// What is compared besides the number of tensors, which of them are defined, layout, sizes and dtype; and how closely
/// elements agree. As it is: no rounding, and NaN is like no number.
struct Likeness {
  double rtol = 0;        ///< of each expected element
  double atol = 0;        ///< absolute
  double of_largest = 0;  ///< of the largest expected element of the tensor, which counts as 1e-3 at the least
  bool equal_nan = false;
  bool strides = false;
  bool requires_grad = false;
  bool zeros_for_undefined = false;  ///< an undefined tensor is like zeros
};

/// As close as at::allclose() has it.
inline constexpr Likeness kClose{.rtol = 1e-5, .atol = 1e-8};

/// As close as `tolerance`, absolute and relative to each element.
inline Likeness within(double tolerance) { return {.rtol = tolerance, .atol = tolerance}; }

inline bool same_elements(const at::Tensor& got, const at::Tensor& expected, const Likeness& how) {
  if (expected.numel() == 0) return true;
  if (expected.is_complex()) {
    return same_elements(at::view_as_real(got.resolve_conj()), at::view_as_real(expected.resolve_conj()), how);
  }
  if (how.rtol == 0 && how.atol == 0 && how.of_largest == 0) return at::allclose(got, expected, 0, 0, how.equal_nan);
  const at::Tensor a = got.to(at::kDouble), b = expected.to(at::kDouble);
  if (how.of_largest == 0) return at::allclose(a, b, how.rtol, how.atol, how.equal_nan);
  const double largest = b.abs().max().item<double>();
  return std::isfinite(largest) &&
         at::allclose(a, b, how.rtol, how.atol + how.of_largest * std::max(largest, 1e-3), how.equal_nan);
}

/// Whether one tensor is like the expected one.
inline ::testing::AssertionResult same_tensor(at::Tensor got, at::Tensor expected, const Likeness& how = {}) {
  if (how.zeros_for_undefined && got.defined() != expected.defined()) {
    (got.defined() ? expected : got) = at::zeros_like(got.defined() ? got : expected);
  }
  if (got.defined() != expected.defined()) {
    return ::testing::AssertionFailure() << (got.defined() ? "is defined" : "is undefined");
  }
  if (!got.defined()) return ::testing::AssertionSuccess();
  if (how.requires_grad && got.requires_grad() != expected.requires_grad()) {
    return ::testing::AssertionFailure() << (got.requires_grad() ? "requires grad" : "requires no grad");
  }
  if (got.layout() != expected.layout() || got.dtype() != expected.dtype() || got.sizes() != expected.sizes()) {
    return ::testing::AssertionFailure() << "is " << got.toString() << got.sizes() << ", expected "
                                         << expected.toString() << expected.sizes();
  }
  got = got.detach().to_dense();
  expected = expected.detach().to_dense();
  if (how.strides && got.strides() != expected.strides()) {
    return ::testing::AssertionFailure() << "has strides " << got.strides() << ", expected " << expected.strides();
  }
  if (same_elements(got, expected, how)) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "is\n" << got << "\nexpected\n" << expected;
}

/// Whether two lists of tensors are alike.
inline ::testing::AssertionResult same_tensors(const Tensors& got, const Tensors& expected, const Likeness& how = {}) {
  if (got.size() != expected.size()) {
    return ::testing::AssertionFailure() << got.size() << " tensors, expected " << expected.size();
  }
  for (size_t i = 0; i < got.size(); ++i) {
    if (const auto same = same_tensor(got[i], expected[i], how); !same) {
      return ::testing::AssertionFailure() << "tensor " << i << " " << same.message();
    }
  }
  return ::testing::AssertionSuccess();
}

}  // namespace diptych::testing
