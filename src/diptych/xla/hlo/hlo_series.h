// Polynomials and series of terms, by coefficients from the highest power down.
#pragma once
#include <initializer_list>
#include <span>
#include <tuple>

#include "diptych/xla/hlo/hlo_term.h"

namespace diptych::detail {

inline HloTerm polynomial(const HloTerm& x, std::span<const double> coefficients) {
  HloTerm sum = x.like(coefficients[0]);
  for (const double next : coefficients.subspan(1)) sum = sum * x + next;
  return sum;
}
inline HloTerm polynomial(const HloTerm& x, std::initializer_list<double> coefficients) {
  return polynomial(x, std::span(coefficients.begin(), coefficients.size()));
}

/// A Chebyshev series by Clenshaw's recurrence.
inline HloTerm chebyshev_sum(const HloTerm& x, std::span<const double> coefficients) {
  HloTerm b0 = x.like(coefficients[0]), b1 = x.like(0), b2 = b1;
  for (const double coefficient : coefficients.subspan(1)) {
    b2 = b1;
    b1 = b0;
    b0 = x * b1 - b2 + coefficient;
  }
  return (b0 - b2) * 0.5;
}
/// The same by a table of ATen's Math.h.
inline HloTerm chebyshev_sum(const HloTerm& x, const std::tuple<const double*, size_t>& table) {
  return chebyshev_sum(x, std::span(std::get<0>(table), std::get<1>(table)));
}

}  // namespace diptych::detail
