// What rounding is to each dtype, and whether numbers are alike but for it.
#pragma once
#include <torch/types.h>

#include <limits>

namespace diptych::testing {

inline bool is_inexact(const at::Tensor& tensor) { return tensor.is_floating_point() || tensor.is_complex(); }

/// The dtype of the truth for numbers of a dtype: float64 or complex128 for all that are inexact.
inline at::ScalarType wide_dtype(at::ScalarType dtype) {
  return at::isComplexType(dtype) ? at::kComplexDouble : at::isFloatingType(dtype) ? at::kDouble : dtype;
}
/// Arithmetic on halves is that of float32.
inline at::ScalarType computed_in(at::ScalarType dtype) {
  return c10::toRealValueType(dtype) == at::kDouble ? at::kDouble : at::kFloat;
}
/// The distance of numbers beside 1.
inline double unit_of(at::ScalarType dtype) {
  const auto real = c10::toRealValueType(dtype);
  if (real == at::kDouble) return std::numeric_limits<double>::epsilon();
  if (real == at::kFloat) return std::numeric_limits<float>::epsilon();
  if (real == at::kHalf) return std::numeric_limits<c10::Half>::epsilon();
  return std::numeric_limits<c10::BFloat16>::epsilon();
}
/// Numbers below it may become zeros where they are computed, or are as far apart as this.
inline double least_of(at::ScalarType dtype) {
  if (computed_in(dtype) == at::kDouble) return std::numeric_limits<double>::min();
  return dtype == at::kHalf ? double{std::numeric_limits<c10::Half>::denorm_min()} : std::numeric_limits<float>::min();
}

/// Element by element: whether numbers are the same, all NaN being one.
inline at::Tensor same_numbers(const at::Tensor& a, const at::Tensor& b) {
  return a.eq(b) | (at::isnan(a) & at::isnan(b));
}

/// Element by element: whether a result is the truth rounded, or apart from it by no more than `moved`, a rounding to
/// its dtype and some in the dtype that is computed in. `truth` is of wide_dtype().
inline at::Tensor is_near(const at::Tensor& got, const at::Tensor& truth, const at::Tensor& moved) {
  constexpr double kRoundings = 8;
  const auto dtype = got.scalar_type();
  const double units =
      kRoundings * unit_of(computed_in(dtype)) + (unit_of(dtype) > unit_of(at::kFloat) ? unit_of(dtype) : 0);
  const at::Tensor rounded = truth.to(dtype), error = (got.to(truth.scalar_type()) - truth).abs();
  const at::Tensor near = error.le(moved + truth.abs() * units + least_of(dtype));
  return same_numbers(got, rounded) | (at::isfinite(rounded) & at::isfinite(got) & near);
}

}  // namespace diptych::testing
