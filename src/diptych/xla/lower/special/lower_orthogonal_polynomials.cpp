// Orthogonal polynomials by their recurrences, with a degree of its own for every element. Source: ATen's Math.h.
#include <limits>

#include "diptych/xla/hlo/hlo_term.h"
#include "diptych/xla/hlo/lowering_loops.h"

namespace diptych::detail {
namespace {

/// The recurrence of a family: p_0 = 1, p_1 = first(x), and p_(k + 1) = next(x, k, p_k, p_(k - 1)).
struct Recurrence {
  HloTerm (*first)(const HloTerm& x);
  HloTerm (*next)(const HloTerm& x, const HloTerm& k, const HloTerm& q, const HloTerm& p);
};

// Runs all elements up to the largest degree; each stops at its own, or where it is NaN.
HloTerm by_recurrence(const Recurrence& family, const HloTerm& x, const HloTerm& degree) {
  HloWriter& writer = x.writer();
  const auto is_going = [](HloWriter& inner, std::span<const Hlo> state) {
    const HloTerm k(inner, inner.broadcast(state[0], state[4].sizes, {})), q(inner, state[2]);
    return (k < HloTerm(inner, state[4])) & !q.is_nan();
  };
  const auto is_open = [=](HloWriter& inner, std::span<const Hlo> state) {
    return std::vector<Hlo>{any_set(inner, is_going(inner, state).value())};
  };
  const auto step = [=](HloWriter& inner, std::span<const Hlo> state) {
    const HloTerm p(inner, state[1]), q(inner, state[2]), x_again(inner, state[3]), going = is_going(inner, state);
    const HloTerm k(inner, inner.convert(inner.broadcast(state[0], state[4].sizes, {}), q.dtype()));
    const HloTerm next = going.choose(family.next(x_again, k, q, p), q), before = going.choose(q, p);
    const Hlo count = inner.binary("add", state[0], inner.constant(1, at::kLong));
    return std::vector<Hlo>{count, before.value(), next.value(), state[3], state[4]};
  };
  const std::vector<Hlo> start{writer.constant(1, at::kLong), x.like(1).value(), family.first(x).value(), x.value(),
                               degree.value()};
  const HloTerm result = x.with(writer.while_loop(start, is_open, step)[2]);
  return (degree < 0.0).choose(0.0, degree.equals(0.0).choose(1.0, result));
}

/// A call: the argument, and the degree rounded towards zero, as i64 and as a number.
struct PolynomialCall {
  HloTerm x, degree, n;
};
PolynomialCall call_of(const Lowering& node) {
  const HloTerm x = computed_operand(node, 0), degree = computed_operand(node, 1).to(at::kLong);
  return {x, degree, degree.to(x.dtype())};
}
HloTerm is_even(const HloTerm& degree) { return degree.binary("remainder", degree.like(2)).equals(0.0); }

HloTerm once(const HloTerm& x) { return x; }
HloTerm twice(const HloTerm& x) { return x + x; }
HloTerm twice_less_one(const HloTerm& x) { return x + x - 1.0; }
HloTerm twice_and_one(const HloTerm& x) { return x + x + 1.0; }
HloTerm one_less(const HloTerm& x) { return 1.0 - x; }
HloTerm next_chebyshev(const HloTerm& x, const HloTerm&, const HloTerm& q, const HloTerm& p) { return (x + x) * q - p; }
HloTerm next_hermite(const HloTerm& x, const HloTerm& k, const HloTerm& q, const HloTerm& p) {
  return (x + x) * q - (k + k) * p;
}
HloTerm next_normal_hermite(const HloTerm& x, const HloTerm& k, const HloTerm& q, const HloTerm& p) {
  return x * q - k * p;
}
HloTerm next_laguerre(const HloTerm& x, const HloTerm& k, const HloTerm& q, const HloTerm& p) {
  return (((k + k) + (1.0 - x)) * q - k * p) / (k + 1.0);
}
HloTerm next_legendre(const HloTerm& x, const HloTerm& k, const HloTerm& q, const HloTerm& p) {
  return ((k + k + 1.0) * x * q - k * p) / (k + 1.0);
}

/// A kind of Chebyshev polynomials: at 1 and at -1 (but for the sign of odd degrees), and of an angle with cosine x.
struct ChebyshevKind {
  Recurrence recurrence;
  HloTerm (*at_one)(const HloTerm& n);
  HloTerm (*at_minus_one)(const HloTerm& n);
  HloTerm (*of_angle)(const HloTerm& angle, const HloTerm& n);
};
HloTerm sine_of(const HloTerm& x) { return x.unary("sine"); }
HloTerm cosine_of(const HloTerm& x) { return x.unary("cosine"); }
HloTerm just_one(const HloTerm& n) { return n.like(1); }
HloTerm one_more(const HloTerm& n) { return n + 1.0; }
HloTerm first_of_angle(const HloTerm& angle, const HloTerm& n) { return cosine_of(n * angle); }
HloTerm second_of_angle(const HloTerm& angle, const HloTerm& n) { return sine_of((n + 1.0) * angle) / sine_of(angle); }
HloTerm third_of_angle(const HloTerm& angle, const HloTerm& n) {
  return cosine_of((n + 0.5) * angle) / cosine_of(angle / 2.0);
}
HloTerm fourth_of_angle(const HloTerm& angle, const HloTerm& n) {
  return sine_of((n + 0.5) * angle) / sine_of(angle / 2.0);
}
constexpr ChebyshevKind kChebyshevT{{once, next_chebyshev}, just_one, just_one, first_of_angle};
constexpr ChebyshevKind kChebyshevU{{twice, next_chebyshev}, one_more, one_more, second_of_angle};
constexpr ChebyshevKind kChebyshevV{{twice_less_one, next_chebyshev}, just_one, twice_and_one, third_of_angle};
constexpr ChebyshevKind kChebyshevW{{twice_and_one, next_chebyshev}, twice_and_one, just_one, fourth_of_angle};

// Large degrees between -1 and 1 are taken by the angle, in double, for a cosine magnifies what its angle lacks.
template <const ChebyshevKind* kKind, int kLargest, bool kIsShifted>
std::vector<Hlo> chebyshev(const Lowering& node) {
  const auto [given, degree, n] = call_of(node);
  const HloTerm x = kIsShifted ? given + given - 1.0 : given, size = x.abs();
  const HloTerm is_edge = size.equals(1.0), is_angle = (degree > kLargest) & (size < 1.0);
  const HloTerm loops = (is_edge | is_angle).choose(0.0, degree);
  const HloTerm by_steps = by_recurrence(kKind->recurrence, x, loops);
  const HloTerm angle = (is_angle.choose(x, 0.0)).to(at::kDouble).chlo("acos");
  const HloTerm by_angle = kKind->of_angle(angle, degree.to(at::kDouble)).to(x.dtype());
  const HloTerm low = kKind->at_minus_one(n),
                at_edge = (x > 0.0).choose(kKind->at_one(n), is_even(degree).choose(low, -low));
  const HloTerm result = is_edge.choose(at_edge, is_angle.choose(by_angle, by_steps));
  return as_result(node, (degree < 0.0).choose(0.0, result));
}

// Beyond these degrees ATen has NaN.
template <const Recurrence* kFamily>
std::vector<Hlo> hermite(const Lowering& node) {
  const auto [x, degree, n] = call_of(node);
  const HloTerm is_large = degree > (x.dtype() == at::kDouble ? 512.0 : 128.0);
  const HloTerm value = by_recurrence(*kFamily, x, is_large.choose(0.0, degree));
  return as_result(node, is_large.choose(std::numeric_limits<double>::quiet_NaN(), value));
}
constexpr Recurrence kHermite{twice, next_hermite}, kNormalHermite{once, next_normal_hermite};

std::vector<Hlo> laguerre(const Lowering& node) {
  const auto [x, degree, n] = call_of(node);
  const HloTerm is_known = x.equals(0.0);
  const HloTerm value = by_recurrence({one_less, next_laguerre}, x, is_known.choose(0.0, degree));
  return as_result(node, (degree < 0.0).choose(0.0, is_known.choose(1.0, value)));
}
std::vector<Hlo> legendre(const Lowering& node) {
  const auto [x, degree, n] = call_of(node);
  const HloTerm is_known = x.abs().equals(1.0), is_positive = (x > 0.0) | is_even(degree);
  const HloTerm value = by_recurrence({once, next_legendre}, x, is_known.choose(0.0, degree));
  const HloTerm known = is_positive.choose(x.like(1), x.like(-1));
  return as_result(node, (degree < 0.0).choose(0.0, is_known.choose(known, value)));
}

constexpr LoweringRow kPolynomialRows[] = {
    {"aten.special_chebyshev_polynomial_t", chebyshev<&kChebyshevT, 6, false>},
    {"aten.special_chebyshev_polynomial_t.x_scalar", chebyshev<&kChebyshevT, 6, false>},
    {"aten.special_chebyshev_polynomial_t.n_scalar", chebyshev<&kChebyshevT, 6, false>},
    {"aten.special_chebyshev_polynomial_u", chebyshev<&kChebyshevU, 8, false>},
    {"aten.special_chebyshev_polynomial_u.x_scalar", chebyshev<&kChebyshevU, 8, false>},
    {"aten.special_chebyshev_polynomial_u.n_scalar", chebyshev<&kChebyshevU, 8, false>},
    {"aten.special_chebyshev_polynomial_v", chebyshev<&kChebyshevV, 8, false>},
    {"aten.special_chebyshev_polynomial_v.x_scalar", chebyshev<&kChebyshevV, 8, false>},
    {"aten.special_chebyshev_polynomial_v.n_scalar", chebyshev<&kChebyshevV, 8, false>},
    {"aten.special_chebyshev_polynomial_w", chebyshev<&kChebyshevW, 8, false>},
    {"aten.special_chebyshev_polynomial_w.x_scalar", chebyshev<&kChebyshevW, 8, false>},
    {"aten.special_chebyshev_polynomial_w.n_scalar", chebyshev<&kChebyshevW, 8, false>},
    {"aten.special_shifted_chebyshev_polynomial_t", chebyshev<&kChebyshevT, 6, true>},
    {"aten.special_shifted_chebyshev_polynomial_t.x_scalar", chebyshev<&kChebyshevT, 6, true>},
    {"aten.special_shifted_chebyshev_polynomial_t.n_scalar", chebyshev<&kChebyshevT, 6, true>},
    {"aten.special_shifted_chebyshev_polynomial_u", chebyshev<&kChebyshevU, 6, true>},
    {"aten.special_shifted_chebyshev_polynomial_u.x_scalar", chebyshev<&kChebyshevU, 6, true>},
    {"aten.special_shifted_chebyshev_polynomial_u.n_scalar", chebyshev<&kChebyshevU, 6, true>},
    {"aten.special_shifted_chebyshev_polynomial_v", chebyshev<&kChebyshevV, 6, true>},
    {"aten.special_shifted_chebyshev_polynomial_v.x_scalar", chebyshev<&kChebyshevV, 6, true>},
    {"aten.special_shifted_chebyshev_polynomial_v.n_scalar", chebyshev<&kChebyshevV, 6, true>},
    {"aten.special_shifted_chebyshev_polynomial_w", chebyshev<&kChebyshevW, 4, true>},
    {"aten.special_shifted_chebyshev_polynomial_w.x_scalar", chebyshev<&kChebyshevW, 4, true>},
    {"aten.special_shifted_chebyshev_polynomial_w.n_scalar", chebyshev<&kChebyshevW, 4, true>},
    {"aten.special_hermite_polynomial_h", hermite<&kHermite>},
    {"aten.special_hermite_polynomial_h.x_scalar", hermite<&kHermite>},
    {"aten.special_hermite_polynomial_h.n_scalar", hermite<&kHermite>},
    {"aten.special_hermite_polynomial_he", hermite<&kNormalHermite>},
    {"aten.special_hermite_polynomial_he.x_scalar", hermite<&kNormalHermite>},
    {"aten.special_hermite_polynomial_he.n_scalar", hermite<&kNormalHermite>},
    {"aten.special_laguerre_polynomial_l", laguerre},
    {"aten.special_laguerre_polynomial_l.x_scalar", laguerre},
    {"aten.special_laguerre_polynomial_l.n_scalar", laguerre},
    {"aten.special_legendre_polynomial_p", legendre},
    {"aten.special_legendre_polynomial_p.x_scalar", legendre},
    {"aten.special_legendre_polynomial_p.n_scalar", legendre},
};

}  // namespace

std::span<const LoweringRow> orthogonal_polynomial_lowerings() { return kPolynomialRows; }

}  // namespace diptych::detail
