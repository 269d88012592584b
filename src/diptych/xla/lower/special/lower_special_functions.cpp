// Special functions that neither StableHLO nor CHLO has as ATen computes them: ATen's formulas, operation by operation.
// Sources: ATen's Math.h and, in it, the Cephes library.
#include <ATen/native/Math.h>

#include <cmath>
#include <limits>

#include "diptych/xla/hlo/hlo_series.h"
#include "diptych/xla/hlo/lowering_loops.h"

namespace diptych::detail {
namespace {

constexpr double kSpecialInfinity = std::numeric_limits<double>::infinity();
constexpr double kSpecialNan = std::numeric_limits<double>::quiet_NaN();

HloTerm floor_of(const HloTerm& x) { return x.unary("floor"); }
HloTerm power_of(const HloTerm& x, const HloTerm& y) { return x.binary("power", y); }

/// A sum of Hurwitz's zeta function while it is computed; what is finished does not change any more.
struct ZetaSum {
  HloTerm s, a, b, is_done;
};

// Terms of the series from q on, past the ninth where q is negative.
ZetaSum next_term(const HloTerm& x, const ZetaSum& sum) {
  constexpr double kEpsilon = 1.11022302462515654042E-16;
  const HloTerm a = sum.is_done.choose(sum.a, sum.a + 1.0);
  const HloTerm b = sum.is_done.choose(sum.b, power_of(a, -x)), s = sum.is_done.choose(sum.s, sum.s + b);
  const HloTerm bound = s * kEpsilon;
  return {s, a, b, sum.is_done | ((-bound < b) & (b < bound))};
}
ZetaSum terms_up_to_nine(const HloTerm& x, const ZetaSum& sum) {
  HloWriter& writer = x.writer();
  const auto state_of = [](const ZetaSum& of, const HloTerm& x) {
    return std::vector<Hlo>{of.s.value(), of.a.value(), of.b.value(), of.is_done.value(), x.value()};
  };
  const auto is_open = [](HloWriter& inner, std::span<const Hlo> state) {
    const HloTerm a(inner, state[1]), is_done(inner, state[3]);
    return std::vector<Hlo>{any_set(inner, ((a <= 9.0) & !is_done).value())};
  };
  const auto add = [&](HloWriter& inner, std::span<const Hlo> state) {
    const auto term = [&](size_t i) { return HloTerm(inner, state[i]); };
    const ZetaSum before{term(0), term(1), term(2), term(3)};
    const HloTerm x = term(4);
    ZetaSum held = next_term(x, {before.s, before.a, before.b, before.is_done | (before.a > 9.0)});
    held.is_done = (before.a <= 9.0).choose(held.is_done, before.is_done);
    return state_of(held, x);
  };
  const auto end = writer.while_loop(state_of(sum, x), is_open, add);
  return {x.with(end[0]), x.with(end[1]), x.with(end[2]), x.with(end[3])};
}

// The rest of the series by Euler and Maclaurin.
HloTerm add_rest(const HloTerm& x, ZetaSum sum) {
  constexpr double kDivisors[] = {12.0,
                                  -720.0,
                                  30240.0,
                                  -1209600.0,
                                  47900160.0,
                                  -1.8924375803183791606e9,
                                  7.47242496e10,
                                  -2.950130727918164224e12,
                                  1.1646782814350067249e14,
                                  -4.5979787224074726105e15,
                                  1.8152105401943546773e17,
                                  -7.1661652561756670113e18};
  const HloTerm w = sum.a;
  HloTerm b = sum.b, a = x.like(1), is_done = sum.is_done;
  HloTerm s = is_done.choose(sum.s, sum.s + b * w / (x - 1.0) - b * 0.5);
  for (int k = 0; const double divisor : kDivisors) {
    a = a * (x + k++);
    b = b / w;
    const HloTerm t = a * b / divisor;
    s = is_done.choose(s, s + t);
    is_done = is_done | ((t / s).abs() < 1.11022302462515654042E-16);
    a = a * (x + k++);
    b = b / w;
  }
  return s;
}

// In double, as ATen does for all dtypes.
HloTerm zeta_of(const HloTerm& order, const HloTerm& given) {
  const HloTerm x = order.to(at::kDouble), q = given.to(at::kDouble);
  const HloTerm is_pole = (q <= 0.0) & q.equals(floor_of(q));
  const HloTerm is_undefined = (x < 1.0) | ((q <= 0.0) & x.differs(floor_of(x)));
  const HloTerm is_special = is_pole | is_undefined | x.equals(1.0);
  const HloTerm from = is_special.choose(1.0, q);
  ZetaSum sum{power_of(from, -x), from, x.like(0), is_special};
  for (int i = 0; i < 9; ++i) sum = next_term(x, sum);
  const HloTerm value = add_rest(x, terms_up_to_nine(x, sum));
  const HloTerm special = x.equals(1.0).choose(
      kSpecialInfinity, (x < 1.0).choose(kSpecialNan, is_pole.choose(kSpecialInfinity, x.like(kSpecialNan))));
  return is_special.choose(special, value).to(given.dtype());
}

// The second derivative of the gamma function's logarithm: reflected below a half, then six steps up.
HloTerm trigamma_of(const HloTerm& given) {
  const HloTerm is_reflected = given < 0.5, sine = (given * std::numbers::pi).unary("sine");
  const HloTerm zero = given.like(0), pole = given.like(-(std::numbers::pi * std::numbers::pi)) / (sine * sine);
  HloTerm result = is_reflected.choose(pole, zero), x = is_reflected.choose(1.0 - given, given);
  for (int i = 0; i < 6; ++i) {
    result = result + 1.0 / (x * x);
    x = x + 1.0;
  }
  const HloTerm ixx = 1.0 / (x * x);
  result = result + (1.0 + 1.0 / (x * 2.0) + ixx * (1. / 6 - ixx * (1. / 30 - ixx * (1. / 42)))) / x;
  return is_reflected.choose(-result, result);
}

std::vector<Hlo> polygamma(const Lowering& node) {
  const int64_t n = node.integer(0);
  const HloTerm x = computed_operand(node, 1);
  if (n == 1) return as_result(node, trigamma_of(x));
  const double factor = (n % 2 == 1 ? 1 : -1) * std::exp(std::lgamma(static_cast<double>(n + 1)));
  return as_result(node, zeta_of(x.like(n + 1), x) * factor);
}
// Of order 0 it is the digamma function, whose operator is another.
bool has_positive_order(const Lowering& node) { return node.integer(0) > 0; }

// The sum of the logarithms of gamma at x, x - 1/2, ..., x - (p - 1) / 2, and a constant.
HloTerm multivariate_lgamma(const Lowering& node, const HloTerm& x) {
  const auto p = node.integer(1);
  HloTerm sum = (x + (-0.5 * static_cast<double>(p - 1))).chlo("lgamma");
  for (int64_t i = p - 2; i >= 0; --i) sum = sum + (x + (-0.5 * static_cast<double>(i))).chlo("lgamma");
  return sum + static_cast<double>(p * (p - 1)) * 0.25 * std::log(std::numbers::pi);
}

// exp(-|x|) times Bessel's function, near zero and beyond.
struct ScaledBessel {
  HloTerm is_near, near_part, far_part;
};
ScaledBessel scaled_bessel_i0(const HloTerm& x) {
  const HloTerm near_part = chebyshev_sum(x * 0.5 - 2.0, chebyshev_coefficients_i0e_A<double>());
  const HloTerm far_part = chebyshev_sum(32.0 / x - 2.0, chebyshev_coefficients_i0e_B<double>());
  return {x <= 8.0, near_part, far_part};
}
HloTerm bessel_i0e_of(const HloTerm& given) {
  const HloTerm x = given.abs();
  const auto [is_near, near_part, far_part] = scaled_bessel_i0(x);
  return is_near.choose(near_part, far_part / x.sqrt());
}
HloTerm bessel_i0_of(const HloTerm& given) {
  const HloTerm x = given.abs();
  const auto [is_near, near_part, far_part] = scaled_bessel_i0(x);
  return is_near.choose(x.exp() * near_part, x.exp() * far_part / x.sqrt());
}

// The inverse of the normal distribution near a half, y being the distance from it.
HloTerm ndtri_in_middle(const HloTerm& y) {
  const HloTerm square = y * y;
  const HloTerm top =
      polynomial(square, {-5.99633501014107895267E1, 9.80010754185999661536E1, -5.66762857469070293439E1,
                          1.39312609387279679503E1, -1.23916583867381258016E0});
  const HloTerm bottom =
      polynomial(square, {1.0, 1.95448858338141759834E0, 4.67627912898881538453E0, 8.63602421390890590575E1,
                          -2.25462687854119370527E2, 2.00260212380060660359E2, -8.20372256168333339912E1,
                          1.59056225126211695515E1, -1.18331621121330003142E0});
  return (y + y * (square * top / bottom)) * 2.50662827463100050242E0;
}
// In the tails, by z = 1 / sqrt(-2 log y): where that root is below 8, and beyond.
HloTerm ndtri_tail_part(const HloTerm& z) {
  const HloTerm top =
      polynomial(z, {4.05544892305962419923E0, 3.15251094599893866154E1, 5.71628192246421288162E1,
                     4.40805073893200834700E1, 1.46849561928858024014E1, 2.18663306850790267539E0,
                     -1.40256079171354495875E-1, -3.50424626827848203418E-2, -8.57456785154685413611E-4});
  const HloTerm bottom =
      polynomial(z, {1.0, 1.57799883256466749731E1, 4.53907635128879210584E1, 4.13172038254672030440E1,
                     1.50425385692907503408E1, 2.50464946208309415979E0, -1.42182922854787788574E-1,
                     -3.80806407691578277194E-2, -9.33259480895457427372E-4});
  return z * top / bottom;
}
HloTerm ndtri_far_tail_part(const HloTerm& z) {
  const HloTerm top = polynomial(z, {3.23774891776946035970E0, 6.91522889068984211695E0, 3.93881025292474443415E0,
                                     1.33303460815807542389E0, 2.01485389549179081538E-1, 1.23716634817820021358E-2,
                                     3.01581553508235416007E-4, 2.65806974686737550832E-6, 6.23974539184983293730E-9});
  const HloTerm bottom = polynomial(
      z, {1.0, 6.02427039364742014255E0, 3.67983563856160859403E0, 1.37702099489081330271E0, 2.16236993594496635890E-1,
          1.34204006088543189037E-2, 3.28014464682127739104E-4, 2.89247864745380683936E-6, 6.79019408009981274425E-9});
  return z * top / bottom;
}
HloTerm ndtri_of(const HloTerm& given) {
  constexpr double kTail = 0.13533528323661269189;  // exp(-2)
  const HloTerm is_high = given > given.like(1 - kTail), y = is_high.choose(1.0 - given, given);
  const HloTerm x = (y.log() * -2.0).sqrt(), z = 1.0 / x;
  const HloTerm tail = x - x.log() / x - (x < 8.0).choose(ndtri_tail_part(z), ndtri_far_tail_part(z));
  const HloTerm inside = (y > kTail).choose(ndtri_in_middle(y - 0.5), is_high.choose(tail, -tail));
  const HloTerm bounded =
      given.equals(0.0).choose(-kSpecialInfinity, given.equals(1.0).choose(kSpecialInfinity, inside));
  return ((given < 0.0) | (given > 1.0)).choose(kSpecialNan, bounded);
}

// exp(x^2) erfc(x) in double, whose digits suffice for narrower dtypes: as a product, and far out as a fraction.
HloTerm scaled_erfc(const HloTerm& x) {
  const double root = std::numbers::inv_sqrtpi;
  const HloTerm square = x * x;
  const HloTerm fraction = root * (square * (square + 4.5) + 2.0) / (x * (square * (square + 5.0) + 3.75));
  return (x > 5e7).choose(root / x, (x > 26.0).choose(fraction, square.exp() * x.chlo("erfc")));
}
HloTerm erfcx_of(const HloTerm& x) { return scaled_erfc(x.to(at::kDouble)).to(x.dtype()); }
HloTerm log_ndtr_of(const HloTerm& given) {
  const HloTerm x = given.to(at::kDouble), t = x * (1 / std::numbers::sqrt2);
  const HloTerm low = (scaled_erfc(-t) * 0.5).log() - t * t, high = (t.chlo("erfc") * -0.5).log1p();
  return (x < -1.0).choose(low, high).to(given.dtype());
}
bool is_narrower_than_double(const Lowering& node) { return node.dtype() != at::kDouble; }

constexpr LoweringRow kSpecialFunctionRows[] = {
    {"aten.polygamma", polygamma, has_positive_order},
    {"aten.special_zeta", formula_of_two<zeta_of>},
    {"aten.special_zeta.self_scalar", formula_of_two<zeta_of>},
    {"aten.special_zeta.other_scalar", formula_of_two<zeta_of>},
    {"aten.mvlgamma", formula_with_numbers<multivariate_lgamma>},
    {"aten.i0", formula_of_one<bessel_i0_of>},
    {"aten.special_erfcx", formula_of_one<erfcx_of>, is_narrower_than_double},
    {"aten.special_log_ndtr", formula_of_one<log_ndtr_of>, is_narrower_than_double},
    {"aten.special_ndtri", formula_of_one<ndtri_of>},
    {"aten.special_i0e", formula_of_one<bessel_i0e_of>},
};

}  // namespace

std::span<const LoweringRow> special_function_lowerings() { return kSpecialFunctionRows; }

}  // namespace diptych::detail
