// Bessel's and Airy's functions by ATen's formulas, in double for all dtypes, whose digits are then right in the
// others. Source: ATen's Math.h.
#include <ATen/native/Math.h>

#include <array>
#include <limits>
#include <numbers>

#include "diptych/xla/hlo/hlo_series.h"
#include "diptych/xla/lower/special/bessel_tables.h"

namespace diptych::detail {
namespace {

constexpr double kBesselInfinity = std::numeric_limits<double>::infinity();
constexpr double kBesselNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kTwoOverPi = 2 / std::numbers::pi;
constexpr double kRootOfTwoOverPi = 0.797884560802865355879892119868763737;
constexpr double kInverseRootOfPi = std::numbers::inv_sqrtpi;

/// The coefficients of Bessel's functions of one order.
struct BesselTables {
  std::span<const double> cosine_top, cosine_bottom, sine_top, sine_bottom;
  std::span<const double> first_top, first_bottom, second_top, second_bottom;
  double shift;  ///< of the waves beyond 5
};
constexpr BesselTables kOrder0{kOrder0CosineTop,  kOrder0CosineBottom, kOrder0SineTop,
                               kOrder0SineBottom, kOrder0FirstTop,     kOrder0FirstBottom,
                               kOrder0SecondTop,  kOrder0SecondBottom, std::numbers::pi / 4};
constexpr BesselTables kOrder1{kOrder1CosineTop,  kOrder1CosineBottom, kOrder1SineTop,
                               kOrder1SineBottom, kOrder1FirstTop,     kOrder1FirstBottom,
                               kOrder1SecondTop,  kOrder1SecondBottom, 3 * std::numbers::pi / 4};

HloTerm sine(const HloTerm& x) { return x.unary("sine"); }
HloTerm cosine(const HloTerm& x) { return x.unary("cosine"); }
HloTerm rational(const HloTerm& x, std::span<const double> top, std::span<const double> bottom) {
  return polynomial(x, top) / polynomial(x, bottom);
}

// Beyond 5, x > 0, both kinds are waves.
HloTerm far_wave(const BesselTables& tables, const HloTerm& x, bool is_second) {
  const HloTerm z = 25.0 / (x * x), angle = x - tables.shift;
  const HloTerm p = rational(z, tables.cosine_top, tables.cosine_bottom);
  const HloTerm q = 5.0 / x * rational(z, tables.sine_top, tables.sine_bottom);
  const HloTerm wave = is_second ? p * sine(angle) + q * cosine(angle) : p * cosine(angle) - q * sine(angle);
  return wave * kRootOfTwoOverPi / x.sqrt();
}
HloTerm first_order0(const HloTerm& given) {
  const HloTerm x = given.abs(), square = x * x;
  const HloTerm near_part = (square - 5.78318596294678452118e+00) * (square - 3.04712623436620863991e+01) *
                            rational(square, kOrder0.first_top, kOrder0.first_bottom);
  const HloTerm inside = (x < 1e-5).choose(1.0 - square / 4.0, near_part);
  return (x <= 5.0).choose(inside, far_wave(kOrder0, x, false));
}
HloTerm first_order1(const HloTerm& given) {
  const HloTerm x = given.abs(), square = x * x;
  const HloTerm near_part = rational(square, kOrder1.first_top, kOrder1.first_bottom) * x *
                            (square - 1.46819706421238932572e+01) * (square - 4.92184563216946036703e+01);
  const HloTerm result = (x <= 5.0).choose(near_part, far_wave(kOrder1, x, false));
  return (given < 0.0).choose(-result, result);
}
// Below zero the second kind is not defined.
HloTerm on_positive(const HloTerm& x, const HloTerm& result, double at_zero) {
  return x.equals(0.0).choose(at_zero, (x < 0.0).choose(kBesselNan, result));
}
HloTerm second_order0(const HloTerm& x) {
  const HloTerm near_part =
      rational(x * x, kOrder0.second_top, kOrder0.second_bottom) + kTwoOverPi * x.log() * first_order0(x);
  return on_positive(x, (x <= 5.0).choose(near_part, far_wave(kOrder0, x, true)), -kBesselInfinity);
}
HloTerm second_order1(const HloTerm& x) {
  const HloTerm near_part = x * rational(x * x, kOrder1.second_top, kOrder1.second_bottom) +
                            kTwoOverPi * (first_order1(x) * x.log() - 1.0 / x);
  return on_positive(x, (x <= 5.0).choose(near_part, far_wave(kOrder1, x, true)), -kBesselInfinity);
}

HloTerm modified_order0(const HloTerm& given) {
  const HloTerm x = given.abs();
  const HloTerm near_part = chebyshev_sum(x * 0.5 - 2.0, chebyshev_coefficients_i0e_A<double>());
  const HloTerm far_part = chebyshev_sum(32.0 / x - 2.0, chebyshev_coefficients_i0e_B<double>());
  return x.exp() * (x <= 8.0).choose(near_part, far_part / x.sqrt());
}
HloTerm modified_order1(const HloTerm& given) {
  const HloTerm x = given.abs();
  const HloTerm near_part = chebyshev_sum(x * 0.5 - 2.0, chebyshev_coefficients_i1e_A<double>()) * x;
  const HloTerm far_part = chebyshev_sum(32.0 / x - 2.0, chebyshev_coefficients_i1e_B<double>());
  const HloTerm result = x.exp() * (x <= 8.0).choose(near_part, far_part / x.sqrt());
  return (given < 0.0).choose(-result, result);
}

// The modified functions of the second kind, and the same times exp(x).
HloTerm chosen_decay(const HloTerm& x, const HloTerm& near_part, std::span<const double> far_table, bool is_scaled) {
  const HloTerm far_part = chebyshev_sum(8.0 / x - 2.0, far_table) / x.sqrt();
  const HloTerm result = is_scaled ? (x <= 2.0).choose(near_part * x.exp(), far_part)
                                   : (x <= 2.0).choose(near_part, (-x).exp() * far_part);
  return on_positive(x, result, kBesselInfinity);
}
template <bool kIsScaled>
HloTerm decaying_order0(const HloTerm& x) {
  const HloTerm near_part = chebyshev_sum(x * x - 2.0, kOrder0NearK) - (x * 0.5).log() * modified_order0(x);
  return chosen_decay(x, near_part, kOrder0FarK, kIsScaled);
}
template <bool kIsScaled>
HloTerm decaying_order1(const HloTerm& x) {
  const HloTerm near_part = (x * 0.5).log() * modified_order1(x) + chebyshev_sum(x * x - 2.0, kOrder1NearK) / x;
  return chosen_decay(x, near_part, kOrder1FarK, kIsScaled);
}

HloTerm spherical_order0(const HloTerm& x) {
  const HloTerm near_part =
      polynomial(x * x, {1.0 / 6227020800, -1.0 / 39916800, 1.0 / 362880, -1.0 / 5040, 1.0 / 120, -1.0 / 6, 1.0});
  return x.is_infinite().choose(0.0, (x.abs() < 0.5).choose(near_part, sine(x) / x));
}

/// Airy's equation y'' = x y has two series in x^3 around zero, each with every third power.
struct AirySeries {
  std::array<double, 20> even{}, odd{};  ///< of x^(3k) and x^(3k + 1), the highest power first
};
constexpr AirySeries airy_series() {
  AirySeries series;
  double even = 1, odd = 1;
  for (int k = 0; k < 20; ++k) {
    series.even[19 - k] = even;
    series.odd[19 - k] = odd;
    const double n = 3 * k;
    even /= (n + 2) * (n + 3);
    odd /= (n + 3) * (n + 4);
  }
  return series;
}
HloTerm airy_near_zero(const HloTerm& x) {
  constexpr AirySeries kSeries = airy_series();
  const HloTerm cube = x * x * x;
  return 0.355028053887817239260 * polynomial(cube, kSeries.even) -
         0.258819403792806798405 * (x * polynomial(cube, kSeries.odd));
}
HloTerm airy(const HloTerm& x) {
  const HloTerm size = x.abs(), root = size.sqrt(), zeta = size * root * 2.0 / 3.0, z = 1.0 / zeta, square = z * z;
  const HloTerm angle = zeta + std::numbers::pi / 4;
  const HloTerm wave = sine(angle) * (1.0 + square * rational(square, kAirySineTop, kAirySineBottom)) -
                       cosine(angle) * (z * rational(square, kAiryCosineTop, kAiryCosineBottom));
  const HloTerm left = kInverseRootOfPi / root.sqrt() * wave;
  const HloTerm right = kInverseRootOfPi * rational(z, kAiryTop, kAiryBottom) / (root.sqrt() * 2.0 * zeta.exp());
  const HloTerm middle = (x >= 2.09).choose(right, airy_near_zero(x));
  const HloTerm inside = (x < -2.09).choose(left, (x > 103.892).choose(0.0, middle));
  return x.is_infinite().choose(kBesselNan, inside);
}

template <HloTerm (*kFormula)(const HloTerm&)>
std::vector<Hlo> in_double(const Lowering& node) {
  return as_result(node, kFormula(computed_operand(node, 0).to(at::kDouble)));
}

constexpr LoweringRow kBesselRows[] = {
    {"aten.special_bessel_j0", in_double<first_order0>},
    {"aten.special_bessel_j1", in_double<first_order1>},
    {"aten.special_bessel_y0", in_double<second_order0>},
    {"aten.special_bessel_y1", in_double<second_order1>},
    {"aten.special_modified_bessel_i0", in_double<modified_order0>},
    {"aten.special_modified_bessel_i1", in_double<modified_order1>},
    {"aten.special_modified_bessel_k0", in_double<decaying_order0<false>>},
    {"aten.special_modified_bessel_k1", in_double<decaying_order1<false>>},
    {"aten.special_scaled_modified_bessel_k0", in_double<decaying_order0<true>>},
    {"aten.special_scaled_modified_bessel_k1", in_double<decaying_order1<true>>},
    {"aten.special_spherical_bessel_j0", in_double<spherical_order0>},
    {"aten.special_airy_ai", in_double<airy>},
};

}  // namespace

std::span<const LoweringRow> bessel_function_lowerings() { return kBesselRows; }

}  // namespace diptych::detail
