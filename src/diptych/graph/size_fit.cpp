#include "diptych/graph/size_fit.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace diptych::detail {
namespace {

// Coefficients are multiples of 1 / kDivisor: convolutions and pools make thirds, quarters and eighths of sizes.
constexpr int64_t kDivisor = 24;

/// A sum of products with coefficients in units of 1 / kDivisor.
struct Polynomial {
  std::vector<Powers> terms;
  std::vector<int64_t> coefficients;
};

bool holds(const Polynomial& polynomial, c10::ArrayRef<int64_t> values, c10::ArrayRef<SymbolValues> points) {
  for (size_t i = 0; i < points.size(); ++i) {
    __int128 sum = 0;
    for (size_t t = 0; t < polynomial.terms.size(); ++t) {
      sum += polynomial.coefficients[t] * product_at(polynomial.terms[t], points[i]);
    }
    if (sum != static_cast<__int128>(values[i]) * kDivisor) return false;
  }
  return true;
}

// Whether the polynomial is an integer at all integer points: it is enough to try each combination of remainders modulo
// the denominator.
bool is_integral(const Polynomial& polynomial, size_t num_symbols) {
  int64_t common = kDivisor;
  for (const int64_t coefficient : polynomial.coefficients) common = std::gcd(common, coefficient);
  const int64_t denominator = kDivisor / common;
  SymbolValues symbols{};
  while (true) {
    __int128 sum = 0;
    for (size_t t = 0; t < polynomial.terms.size(); ++t) {
      sum += polynomial.coefficients[t] * product_at(polynomial.terms[t], symbols);
    }
    if (sum % kDivisor != 0) return false;
    size_t s = 0;
    while (s < num_symbols && ++symbols[s] == denominator) symbols[s++] = 0;
    if (s == num_symbols) return true;
  }
}

int64_t coefficient_of(long double value) { return std::llround(value * kDivisor); }

// Solves for the coefficients by Gaussian elimination; callers check the rounded result with holds().
std::optional<Polynomial> solve(const std::vector<Powers>& terms, c10::ArrayRef<int64_t> values,
                                c10::ArrayRef<SymbolValues> points) {
  const size_t n = terms.size();
  std::vector<std::vector<long double>> rows(points.size(), std::vector<long double>(n + 1));
  for (size_t i = 0; i < points.size(); ++i) {
    for (size_t t = 0; t < n; ++t) rows[i][t] = static_cast<long double>(product_at(terms[t], points[i]));
    rows[i][n] = static_cast<long double>(values[i]);
  }
  for (size_t column = 0; column < n; ++column) {
    const auto pivot =
        std::max_element(rows.begin() + static_cast<std::ptrdiff_t>(column), rows.end(),
                         [&](const auto& a, const auto& b) { return std::abs(a[column]) < std::abs(b[column]); });
    if ((*pivot)[column] == 0) return std::nullopt;
    std::iter_swap(rows.begin() + static_cast<std::ptrdiff_t>(column), pivot);
    for (size_t i = 0; i < rows.size(); ++i) {
      if (i == column) continue;
      const long double factor = rows[i][column] / rows[column][column];
      for (size_t j = column; j <= n; ++j) rows[i][j] -= factor * rows[column][j];
    }
  }
  Polynomial found{terms, {}};
  for (size_t t = 0; t < n; ++t) found.coefficients.push_back(coefficient_of(rows[t][n] / rows[t][t]));
  return found;
}

SizeExpr expression(const Polynomial& polynomial, const SymbolValues& hints) {
  SizeExpr sum = 0;
  for (size_t t = 0; t < polynomial.terms.size(); ++t) {
    SizeExpr term = polynomial.coefficients[t];
    for (size_t s = 0; s < hints.size(); ++s) {
      for (uint8_t p = 0; p < polynomial.terms[t][s]; ++p) {
        term = term * SizeExpr::symbol(SizePattern::name_of(s), hints[s]);
      }
    }
    sum = sum + term;
  }
  return sum.divided_by(kDivisor);
}

// `a * term`, or `a * term + b`, through the points at which the term is smallest and largest.
std::optional<Polynomial> fit_term(const Powers& term, bool has_offset, c10::ArrayRef<int64_t> values,
                                   c10::ArrayRef<SymbolValues> points) {
  const auto [low, high] = std::minmax_element(
      points.begin(), points.end(),
      [&](const SymbolValues& a, const SymbolValues& b) { return product_at(term, a) < product_at(term, b); });
  const auto x0 = static_cast<long double>(product_at(term, *low)),
             x1 = static_cast<long double>(product_at(term, *high));
  const auto y0 = static_cast<long double>(values[low - points.begin()]);
  const auto y1 = static_cast<long double>(values[high - points.begin()]);
  if (x0 == x1) return std::nullopt;
  if (!has_offset) return Polynomial{{term}, {coefficient_of(y1 / x1)}};
  const long double slope = (y1 - y0) / (x1 - x0);
  return Polynomial{{term, Powers{}}, {coefficient_of(slope), coefficient_of(y0 - slope * x0)}};
}

}  // namespace

std::optional<SizeExpr> fit_size(c10::ArrayRef<int64_t> values, c10::ArrayRef<SymbolValues> points,
                                 size_t num_symbols) {
  if (std::all_of(values.begin(), values.end(), [&](int64_t value) { return value == values[0]; })) return values[0];
  for (const bool has_offset : {false, true}) {
    for (const Powers& term : power_products(num_symbols, 3)) {
      const auto found = fit_term(term, has_offset, values, points);
      if (found && holds(*found, values, points) && is_integral(*found, num_symbols))
        return expression(*found, points[0]);
    }
  }
  for (const int degree : {1, 2}) {
    const auto terms = power_products(num_symbols, degree);
    if (terms.size() >= points.size()) return std::nullopt;
    const auto found = solve(terms, values, points);
    if (found && holds(*found, values, points) && is_integral(*found, num_symbols))
      return expression(*found, points[0]);
  }
  return std::nullopt;
}

}  // namespace diptych::detail
