#include "diptych/native/codegen/complex_formulas.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

namespace diptych::detail {
namespace {

struct Complex {
  Term re, im;
};

// What formulas need to know of the parts' dtype.
struct Range {
  double largest_exponent;  // of e: beyond it there are infinities
  double scale;             // a power of two near the root of the largest number
  double huge, tiny;        // beyond these, squares of what is scaled are needed

  static const Range& of(const Term& x) {
    static constexpr Range kFloat{88, 0x1p64, 0x1p100, 0x1p-100}, kDouble{709, 0x1p512, 0x1p1000, 0x1p-900};
    return x.dtype() == at::kFloat ? kFloat : kDouble;
  }
};

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// A product that is rounded, whatever is done with it.
Term rounded_product(const Term& x, const Term& y) { return x.apply("rounded_mul", y); }
Term is_infinite(const Term& x) { return x.apply("is_inf"); }
Term is_wild(const Term& x) { return !x.apply("is_finite"); }
Term with_sign(double size, const Term& x) { return x.like(size).apply("copysign", x); }
Term hypotenuse(const Complex& x) { return x.re.apply("hypot", x.im); }
Term angle_of(const Complex& x) { return x.im.apply("atan2", x.re); }

Complex operator*(const Complex& x, const Complex& y) {
  return {rounded_product(x.re, y.re) - rounded_product(x.im, y.im),
          rounded_product(x.re, y.im) + rounded_product(x.im, y.re)};
}

Complex times_i(const Complex& x) { return {-x.im, x.re}; }

// Smith's rule: R. L. Smith, "Algorithm 116: Complex division", CACM 5 (1962).
Complex operator/(const Complex& x, const Complex& y) {
  const Term re_size = abs(y.re), im_size = abs(y.im), is_steep = re_size >= im_size;
  const Term large = is_steep.choose(y.re, y.im), small = is_steep.choose(y.im, y.re);
  const Term ratio = small / large, scale = 1.0 / (large + small * ratio);
  const Term first = is_steep.choose(x.re, x.im), second = is_steep.choose(x.im, x.re);
  const Term re = (first + second * ratio) * scale;
  const Term im = is_steep.choose(second - first * ratio, first * ratio - second) * scale;
  const Term is_zero = (re_size + im_size).equals(0.0);
  return {is_zero.choose(x.re / re_size, re), is_zero.choose(x.im / re_size, im)};
}

// e^x times the cosine and the sine of y, which may be finite where e^x is not.
Complex exponential(const Complex& x) {
  const Range& range = Range::of(x.re);
  constexpr double kShift = 64;
  const Term is_large = x.re > range.largest_exponent;
  const Term size = exp(is_large.choose(x.re - kShift, x.re)), rest = is_large.choose(std::exp(kShift), x.re.like(1));
  const Term re = rounded_product(size, x.im.apply("cos")) * rest;
  const Term im = rounded_product(size, x.im.apply("sin")) * rest;
  // Of an infinite real part and an imaginary one that is not finite.
  const Term is_far = is_infinite(x.re) & is_wild(x.im);
  const Term far_im = size.equals(0.0).choose(with_sign(0, x.im), x.im - x.im);
  return {is_far.choose(size, re), x.im.equals(0.0).choose(x.im, is_far.choose(far_im, im))};
}

// The logarithm of the absolute value. Near 1 it is that of 1 + s, where s = x^2 + y^2 - 1 is computed with the
// squares' rounding errors, since it is the difference of numbers that are nearly the same.
Term log_size(const Complex& x) {
  const Range& range = Range::of(x.re);
  const Term a = abs(x.re), b = abs(x.im), large = maximum(a, b), small = minimum(a, b);
  const Term large_square = rounded_product(large, large), small_square = rounded_product(small, small);
  const Term errors = large.fma(large, -large_square) + small.fma(small, -small_square);
  const Term near = (((large_square - 1.0) + small_square) + errors).apply("log1p") * 0.5;

  const double shift = std::log(range.scale);
  const Term is_huge = large > range.huge, is_tiny = large < range.tiny;
  const Term factor = is_huge.choose(1 / range.scale, is_tiny.choose(range.scale, large.like(1)));
  const Term more = is_huge.choose(shift, is_tiny.choose(-shift, large.like(0)));
  const Term far = log(hypotenuse({x.re * factor, x.im * factor})) + more;
  const Term square = large_square + small_square;
  return ((square > 0.5) & (square < 2.0)).choose(near, far);
}

Complex logarithm(const Complex& x) { return {log_size(x), angle_of(x)}; }
Complex scaled_logarithm(const Complex& x, double base) {
  const Complex natural = logarithm(x);
  return {natural.re / std::log(base), natural.im / std::log(base)};
}

// The root of x: of the larger part r = sqrt((|x| + |re|) / 2), the other one is im / 2r. Numbers whose sums leave the
// dtype's range are scaled.
Complex root(const Complex& x) {
  const Range& range = Range::of(x.re);
  const Term a = abs(x.re), b = abs(x.im), large = maximum(a, b);
  const Term is_huge = large > range.huge, is_tiny = large < range.tiny;
  const Term factor = is_huge.choose(1 / range.scale, is_tiny.choose(range.scale, large.like(1)));
  const double root_scale = std::sqrt(range.scale);
  const Term back = is_huge.choose(root_scale, is_tiny.choose(1 / root_scale, large.like(1)));
  const Term re = a * factor, im = b * factor;
  const Term longer = sqrt((re + hypotenuse({re, im})) * 0.5), shorter = im * 0.5 / longer;
  const Term is_zero = large.equals(0.0), is_left = x.re < 0.0;
  const Term up = longer * back, aside = is_zero.choose(0.0, shorter * back);
  const Term is_tall = is_infinite(x.im);
  return {is_tall.choose(b, is_left.choose(aside, up)),
          is_tall.choose(x.im, is_left.choose(up, aside).apply("copysign", x.im))};
}

// A hyperbolic function of x (`of_size`, which is the sine or the cosine) times `factor`, which is at most 1: their
// product may be finite where the function is not.
Term hyperbolic_times(const Term& x, std::string_view function, const Term& factor) {
  const Range& range = Range::of(x);
  const Term size = abs(x), is_large = size > range.largest_exponent;
  const Term half = exp(is_large.choose(size * 0.5, x.like(0)));
  const Term far = rounded_product(rounded_product(rounded_product(half, factor), half.like(0.5)), half);
  const Term near = rounded_product(is_large.choose(0.0, x).apply(function), factor);
  const Term signed_far = function == "sinh" ? (x < 0.0).choose(-far, far) : far;
  return is_large.choose(signed_far, near);
}

// The sine or cosine of an angle that is not finite does not count beside a zero or an infinity.
Complex hyperbolic_sine(const Complex& x) {
  const Term is_lone = is_wild(x.im) & (x.re.equals(0.0) | is_infinite(x.re));
  const Term cosine = is_lone.choose(1.0, x.im.apply("cos"));
  const Term im = hyperbolic_times(x.re, "cosh", x.im.apply("sin"));
  return {hyperbolic_times(x.re, "sinh", cosine), x.im.equals(0.0).choose(x.im, im)};
}
Complex hyperbolic_cosine(const Complex& x) {
  const Term is_lone = is_wild(x.im) & is_infinite(x.re);
  const Term cosine = is_lone.choose(1.0, x.im.apply("cos")), sine = x.im.apply("sin");
  const Term of_zero = rounded_product(with_sign(1, x.re), x.im);  // an imaginary part of 0
  const Term at_zero = rounded_product(x.re, with_sign(1, x.im));  // a real part of 0
  const Term im = x.re.equals(0.0).choose(is_wild(x.im).choose(at_zero, rounded_product(x.re, sine)),
                                          hyperbolic_times(x.re, "sinh", sine));
  return {hyperbolic_times(x.re, "cosh", cosine), x.im.equals(0.0).choose(of_zero, im)};
}
// Beyond 20 the real part is 1, and the imaginary one sin(2 im) / cosh(2 re), which is the product below.
Complex hyperbolic_tangent(const Complex& x) {
  constexpr double kFar = 20;
  const Term size = abs(x.re), is_far = size > kFar, re = is_far.choose(0.0, x.re);
  const Term sine = x.im.apply("sin"), cosine = x.im.apply("cos"), both = rounded_product(sine, cosine);
  const Term h_sine = re.apply("sinh"), h_cosine = re.apply("cosh");
  const Term divisor = rounded_product(h_sine, h_sine) + rounded_product(cosine, cosine);
  const Term far_im = rounded_product(both * 4.0, exp(is_far.choose(size * -2.0, size.like(0))));
  const Term im = is_far.choose((is_infinite(x.re) & is_wild(x.im)).choose(with_sign(0, x.im), far_im), both / divisor);
  const Term near_re = x.re.equals(0.0).choose(x.re, rounded_product(h_sine, h_cosine) / divisor);
  return {is_far.choose(with_sign(1, x.re), near_re), x.im.equals(0.0).choose(x.im, im)};
}

// f(x) = -i g(ix), written so that zeros keep their signs: g is odd in its real part, with an even imaginary one.
template <Complex (*kOf)(const Complex&)>
Complex turned(const Complex& x) {
  const Complex found = kOf({x.im, x.re});
  return {found.im, found.re};
}
Complex cosine(const Complex& x) { return hyperbolic_cosine(times_i(x)); }

Complex add(const Complex& x, const Complex& y) { return {x.re + y.re, x.im + y.im}; }
Complex subtract(const Complex& x, const Complex& y) { return {x.re - y.re, x.im - y.im}; }
Complex multiply(const Complex& x, const Complex& y) { return x * y; }
Complex divide(const Complex& x, const Complex& y) { return x / y; }
// Of floats in doubles: a large exponent makes much of the logarithm's rounding.
Complex raise(const Complex& x, const Complex& y) {
  const auto wide = [](const Complex& of) { return Complex{of.re.to(at::kDouble), of.im.to(at::kDouble)}; };
  const Complex power = exponential(wide(y) * logarithm(wide(x)));
  return {power.re.to(x.re.dtype()), power.im.to(x.re.dtype())};
}
Complex negative(const Complex& x) { return {-x.re, -x.im}; }
Complex conjugate(const Complex& x) { return {x.re, -x.im}; }
Complex sign(const Complex& x) {
  const Term size = hypotenuse(x), is_zero = size.equals(0.0);
  return {is_zero.choose(0.0, x.re / size), is_zero.choose(0.0, x.im / size)};
}
Complex inverse_root(const Complex& x) { return Complex{x.re.like(1), x.re.like(0)} / root(x); }
Complex log2(const Complex& x) { return scaled_logarithm(x, 2); }
Complex log10(const Complex& x) { return scaled_logarithm(x, 10); }

Term real_part(const Complex& x) { return x.re; }
Term imaginary_part(const Complex& x) { return x.im; }
Term equals(const Complex& x, const Complex& y) { return x.re.equals(y.re) & x.im.equals(y.im); }
Term differs(const Complex& x, const Complex& y) { return x.re.differs(y.re) | x.im.differs(y.im); }

Complex complex_of(const NumberParts& parts) { return {parts[0], parts[1]}; }

template <Complex (*kFormula)(const Complex&)>
NumberParts of_one(const std::vector<NumberParts>& x) {
  const Complex result = kFormula(complex_of(x[0]));
  return {result.re, result.im};
}
template <Complex (*kFormula)(const Complex&, const Complex&)>
NumberParts of_two(const std::vector<NumberParts>& x) {
  const Complex result = kFormula(complex_of(x[0]), complex_of(x[1]));
  return {result.re, result.im};
}
template <Term (*kFormula)(const Complex&)>
NumberParts real_of_one(const std::vector<NumberParts>& x) {
  return {kFormula(complex_of(x[0]))};
}
template <Term (*kFormula)(const Complex&, const Complex&)>
NumberParts real_of_two(const std::vector<NumberParts>& x) {
  return {kFormula(complex_of(x[0]), complex_of(x[1]))};
}
NumberParts join(const std::vector<NumberParts>& x) { return {x[0][0], x[1][0]}; }
NumberParts select(const std::vector<NumberParts>& x) {
  const Term& condition = x[0][0];
  return {condition.choose(x[1][0], x[2][0]), condition.choose(x[1][1], x[2][1])};
}

constexpr ComplexFormula kFormulas[] = {
    {"add", of_two<add>},
    {"sub", of_two<subtract>},
    {"mul", of_two<multiply>},
    {"div", of_two<divide>},
    {"pow", of_two<raise>},
    {"neg", of_one<negative>},
    {"abs", real_of_one<hypotenuse>},
    {"sign", of_one<sign>},
    {"sqrt", of_one<root>},
    {"rsqrt", of_one<inverse_root>},
    {"exp", of_one<exponential>},
    {"log", of_one<logarithm>},
    {"log2", of_one<log2>},
    {"log10", of_one<log10>},
    {"sin", of_one<turned<hyperbolic_sine>>},
    {"cos", of_one<cosine>},
    {"tan", of_one<turned<hyperbolic_tangent>>},
    {"sinh", of_one<hyperbolic_sine>},
    {"cosh", of_one<hyperbolic_cosine>},
    {"tanh", of_one<hyperbolic_tangent>},
    {"eq", real_of_two<equals>},
    {"ne", real_of_two<differs>},
    {"real", real_of_one<real_part>},
    {"imag", real_of_one<imaginary_part>},
    {"conj", of_one<conjugate>},
    {"complex", join},
    {"select", select},
};

}  // namespace

const ComplexFormula* find_complex_formula(std::string_view op) {
  const auto* row = std::ranges::find(kFormulas, op, &ComplexFormula::op);
  return row == std::end(kFormulas) ? nullptr : row;
}

}  // namespace diptych::detail
