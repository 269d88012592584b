// Elementary and special functions of real and complex numbers.
#include <cmath>
#include <limits>

#include "diptych/xla/hlo/hlo_term.h"

namespace diptych::detail {
namespace {

constexpr double kMathInfinity = std::numeric_limits<double>::infinity();
constexpr double kMathNan = std::numeric_limits<double>::quiet_NaN();

template <const char* kOperation>
HloTerm plain_function(const HloTerm& x) {
  return x.unary(kOperation);
}
template <const char* kOperation>
HloTerm chlo_function(const HloTerm& x) {
  return x.chlo(kOperation);
}

// The logarithm of 2 is not exact, so 2^x is better off as a power than as an exponential.
HloTerm exp2_of(const HloTerm& x) {
  return at::isComplexType(x.dtype()) ? (x * std::numbers::ln2).exp() : x.like(2).binary("power", x);
}
HloTerm log2_of(const HloTerm& x) { return x.log() * std::numbers::log2e; }
HloTerm log10_of(const HloTerm& x) { return x.log() * std::numbers::log10e; }
HloTerm reciprocal_of(const HloTerm& x) { return 1.0 / x; }
HloTerm degrees_of(const HloTerm& x) { return x * (180 / std::numbers::pi); }
HloTerm radians_of(const HloTerm& x) { return x * (std::numbers::pi / 180); }
HloTerm frac_of(const HloTerm& x) { return x - x.truncated(); }

// HLO's sign hands NaN on, ATen's makes a zero of it.
HloTerm sign_of(const HloTerm& x) {
  if (x.dtype() == at::kBool) return x;
  if (!at::isComplexType(x.dtype())) return (x > 0.0).to(x.dtype()) - (x < 0.0).to(x.dtype());
  const HloTerm size = x.abs();
  return size.equals(0.0).choose(0.0, x / size.to(x.dtype()));
}

// XLA's error function of singles comes within a rounding of 1 but does not reach it, which 1 + erf(x) shows.
HloTerm erf_of(const HloTerm& x) {
  const HloTerm inside = x.chlo("erf");
  return x.dtype() == at::kFloat ? (x.abs() > 3.95).choose(sign_of(x), inside) : inside;
}
// At the pole of zero XLA has NaN, where ATen has the infinity of zero's other sign.
HloTerm digamma_of(const HloTerm& x) { return x.equals(0.0).choose(-1.0 / x, x.chlo("digamma")); }

// Singles lose digits in XLA where the operand comes close to 1.
HloTerm erfinv_of(const HloTerm& x) { return x.to(at::kDouble).chlo("erf_inv").to(x.dtype()); }

HloTerm sinc_of(const HloTerm& x) {
  const HloTerm angle = x * std::numbers::pi;
  return x.equals(0.0).choose(1.0, angle.unary("sine") / angle);
}
HloTerm entropy_of(const HloTerm& x) {
  const HloTerm inside = x.equals(0.0).choose(0.0, (x < 0.0).choose(-kMathInfinity, -(x * x.log())));
  return x.is_nan().choose(x, inside);
}
HloTerm bessel_i1_of(const HloTerm& x) { return x.chlo("bessel_i1e") * x.abs().exp(); }

HloTerm clamped_logit_operand(const Lowering& node, const HloTerm& x, size_t eps) {
  const double low = in_dtype(node, node.number(eps, -1));
  return low < 0 ? x : minimum(maximum(x, x.like(low)), x.like(in_dtype(node, 1 - low)));
}
HloTerm logit_of(const Lowering& node, const HloTerm& x) {
  const HloTerm inside = clamped_logit_operand(node, x, 1);
  return (inside / (1.0 - inside)).log();
}
// Outside of the bounds the gradient is zero, or NaN where the node has none.
HloTerm logit_gradient(const Lowering& node, const HloTerm& gradient, const HloTerm& x) {
  const double low = in_dtype(node, std::max(node.number(2, -1), 0.0));
  const bool is_bounded = node.number(2, -1) >= 0;
  const HloTerm is_outside = (x < low) | (x > in_dtype(node, 1 - low));
  const HloTerm slope = x * (1.0 - x);
  // At -0 ATen's kernel of half types takes the infinity of the gradient's sign.
  const HloTerm divisor = at::isReducedFloatingType(node.dtype()) ? slope.abs() : slope;
  return is_outside.choose(is_bounded ? 0.0 : kMathNan, gradient / divisor);
}

// Scaled by the larger side, so that squares do not overflow; infinity wins over NaN.
HloTerm hypot_of(const HloTerm& x, const HloTerm& y) {
  const HloTerm a = x.abs(), b = y.abs(), large = maximum(a, b), ratio = minimum(a, b) / large;
  const HloTerm length = large.equals(0.0).choose(large, large * (1.0 + ratio * ratio).sqrt());
  return (a.equals(kMathInfinity) | b.equals(kMathInfinity)).choose(kMathInfinity, length);
}

// log(base^x + base^y); equal infinities have no difference. `scale` is the base's logarithm.
HloTerm log_of_sum(const HloTerm& x, const HloTerm& y, double scale) {
  const HloTerm difference = (x - y).abs();
  const HloTerm sum = maximum(x, y) + (-(difference * scale)).exp().log1p() / scale;
  return (x.is_infinite() & x.equals(y)).choose(x, sum);
}
HloTerm logaddexp_of(const HloTerm& x, const HloTerm& y) { return log_of_sum(x, y, 1); }
HloTerm logaddexp2_of(const HloTerm& x, const HloTerm& y) { return log_of_sum(x, y, std::numbers::ln2); }

// Zero times the logarithm of anything but NaN is zero.
HloTerm product_with_log(const HloTerm& x, const HloTerm& y, const HloTerm& logarithm) {
  return y.is_nan().choose(y, x.equals(0.0).choose(0.0, x * logarithm));
}
HloTerm xlogy_of(const HloTerm& x, const HloTerm& y) { return product_with_log(x, y, y.log()); }
HloTerm xlog1py_of(const HloTerm& x, const HloTerm& y) { return product_with_log(x, y, y.log1p()); }

// Of zeros that the compiler knows to be zeros, HLO's own is NaN.
HloTerm atan2_of(const HloTerm& y, const HloTerm& x) {
  const auto is_negative = [](const HloTerm& zero) { return 1.0 / zero < 0.0; };
  const HloTerm half_turn = is_negative(y).choose(y.like(-std::numbers::pi), y.like(std::numbers::pi));
  const HloTerm of_zeros = is_negative(x).choose(half_turn, y);
  return (y.equals(0.0) & x.equals(0.0)).choose(of_zeros, y.binary("atan2", x));
}

// ATen rounds the power of two to the exponent's dtype before it multiplies.
std::vector<Hlo> ldexp_by_tensor(const Lowering& node) {
  const auto given = operand_dtype(node, 1);
  const auto dtype = at::isFloatingType(given) ? given : at::get_default_dtype_as_scalartype();
  const HloTerm exponent(node.writer(), node.spread(1, Lowering::wide(dtype)));
  const HloTerm power = exponent.like(2).binary("power", exponent).to(dtype);
  return as_result(node, computed_operand(node, 0) * power.to(Lowering::wide(node.dtype())));
}

HloTerm heaviside_of(const HloTerm& x, const HloTerm& at_zero) {
  return x.equals(0.0).choose(at_zero, (x > 0.0).to(x.dtype()));
}
// Of a number and NaN, the number.
HloTerm ignoring_nan(const HloTerm& x, const HloTerm& y, const HloTerm& both) {
  return x.is_nan().choose(y, y.is_nan().choose(x, both));
}
// Of zeros of two signs eager's kernels take the first, and the second of bf16.
template <HloTerm (*kChoice)(const HloTerm&, const HloTerm&)>
std::vector<Hlo> number_of_two(const Lowering& node) {
  const HloTerm x = computed_operand(node, 0), y = computed_operand(node, 1);
  const bool takes_second = node.dtype() == at::kBFloat16;
  return as_result(node, ignoring_nan(x, y, takes_second ? kChoice(y, x) : kChoice(x, y)));
}

double largest_of(at::ScalarType dtype) {
  if (dtype == at::kHalf) return 65504;
  if (dtype == at::kBFloat16) return 3.38953138925153547590e38;
  return dtype == at::kFloat ? static_cast<double>(std::numeric_limits<float>::max())
                             : std::numeric_limits<double>::max();
}
std::vector<Hlo> nan_to_num(const Lowering& node) {
  const HloTerm x(node.writer(), node.tensor(0));
  if (at::isIntegralType(x.dtype(), true)) return {x.value()};
  const double largest = largest_of(x.dtype());
  const HloTerm low = x.equals(-kMathInfinity).choose(node.number(3, -largest), x);
  const HloTerm inside = x.equals(kMathInfinity).choose(node.number(2, largest), low);
  return {x.is_nan().choose(node.number(1, 0), inside).value()};
}

// Rounds at a decimal digit: `p` is 10 to the digit's distance from the point.
std::vector<Hlo> round_at_digit(const Lowering& node) {
  const int64_t digits = node.integer(1);
  const HloTerm x(node.writer(), node.tensor(0));
  // A constant divisor would be turned into a product, which rounds otherwise.
  const HloTerm p = x.like(std::pow(10.0, static_cast<double>(std::abs(digits)))).opaque();
  const HloTerm scaled = (digits < 0 ? x / p : x * p).unary("round_nearest_even");
  return {(digits < 0 ? scaled * p : scaled / p).value()};
}
bool is_single_or_double(const Lowering& node) { return node.dtype() == at::kFloat || node.dtype() == at::kDouble; }

HloTerm lerp_by_tensor(const Lowering& node, const HloTerm& from, const HloTerm& to) {
  const HloTerm weight = exact_operand(node, 2), difference = to - from;
  return (weight.abs() < 0.5).choose(from + weight * difference, to - difference * (1.0 - weight));
}

// x + value * y * z, or / z.
template <const char* kOperation>
HloTerm add_combined(const Lowering& node, const HloTerm& x, const HloTerm& y) {
  return x + (y.like(node.scalar(3, 1)) * y).binary(kOperation, computed_operand(node, 2));
}
constexpr char kTimes[] = "multiply", kOver[] = "divide";

constexpr char kTanhName[] = "tanh", kExpName[] = "exponential", kExpm1Name[] = "exponential_minus_one";
constexpr char kLogName[] = "log", kLog1pName[] = "log_plus_one", kSqrtName[] = "sqrt", kRsqrtName[] = "rsqrt";
constexpr char kSineName[] = "sine", kCosineName[] = "cosine", kTanName[] = "tan", kSigmoidName[] = "logistic";
constexpr char kErfcName[] = "erfc", kLgammaName[] = "lgamma";
constexpr char kAsinName[] = "asin", kAcosName[] = "acos", kAtanName[] = "atan";
constexpr char kSinhName[] = "sinh", kCoshName[] = "cosh", kAsinhName[] = "asinh", kAcoshName[] = "acosh";
constexpr char kAtanhName[] = "atanh", kBesselI1eName[] = "bessel_i1e";

template <const char* kOperation>
constexpr LoweringRule kPlain = formula_of_one<plain_function<kOperation>>;
template <const char* kOperation>
constexpr LoweringRule kChlo = formula_of_one<chlo_function<kOperation>>;

constexpr LoweringRow kMathRows[] = {
    {"aten.tanh", kPlain<kTanhName>},
    {"aten.exp", kPlain<kExpName>},
    {"aten.expm1", kPlain<kExpm1Name>},
    {"aten.log", kPlain<kLogName>},
    {"aten.log1p", kPlain<kLog1pName>},
    {"aten.sqrt", kPlain<kSqrtName>},
    {"aten.rsqrt", kPlain<kRsqrtName>},
    {"aten.sin", kPlain<kSineName>},
    {"aten.cos", kPlain<kCosineName>},
    {"aten.tan", kPlain<kTanName>},
    {"aten.sigmoid", kPlain<kSigmoidName>},
    {"aten.exp2", formula_of_one<exp2_of>},
    {"aten.special_exp2", formula_of_one<exp2_of>},
    {"aten.log2", formula_of_one<log2_of>},
    {"aten.log10", formula_of_one<log10_of>},
    {"aten.reciprocal", formula_of_one<reciprocal_of>},
    {"aten.erf", formula_of_one<erf_of>},
    {"aten.erfc", kChlo<kErfcName>},
    {"aten.erfinv", formula_of_one<erfinv_of>},
    {"aten.lgamma", kChlo<kLgammaName>},
    {"aten.digamma", formula_of_one<digamma_of>},
    {"aten.asin", kChlo<kAsinName>},
    {"aten.acos", kChlo<kAcosName>},
    {"aten.atan", kChlo<kAtanName>},
    {"aten.sinh", kChlo<kSinhName>},
    {"aten.cosh", kChlo<kCoshName>},
    {"aten.asinh", kChlo<kAsinhName>},
    {"aten.acosh", kChlo<kAcoshName>},
    {"aten.atanh", kChlo<kAtanhName>},
    {"aten.special_i1e", kChlo<kBesselI1eName>},
    {"aten.special_i1", formula_of_one<bessel_i1_of>},
    {"aten.sgn", formula_of_one<sign_of>},
    {"aten.sign", formula_of_one<sign_of>},
    {"aten.frac", formula_of_one<frac_of>},
    {"aten.sinc", formula_of_one<sinc_of>},
    {"aten.special_entr", formula_of_one<entropy_of>},
    {"aten.deg2rad", formula_of_one<radians_of>},
    {"aten.rad2deg", formula_of_one<degrees_of>},
    {"aten.logit", formula_with_numbers<logit_of>},
    {"aten.logit_backward", formula_of_two_with_numbers<logit_gradient>},
    {"aten.hypot", formula_of_two<hypot_of>},
    {"aten.atan2", formula_of_two<atan2_of>},
    {"aten.logaddexp", formula_of_two<logaddexp_of>, has_real_float_result},
    {"aten.logaddexp2", formula_of_two<logaddexp2_of>, has_real_float_result},
    {"aten.xlogy.Tensor", formula_of_two<xlogy_of>},
    {"aten.xlogy.Scalar_Self", formula_of_two<xlogy_of>},
    {"aten.xlogy.Scalar_Other", formula_of_two<xlogy_of>},
    {"aten.special_xlog1py", formula_of_two<xlog1py_of>},
    {"aten.special_xlog1py.self_scalar", formula_of_two<xlog1py_of>},
    {"aten.special_xlog1py.other_scalar", formula_of_two<xlog1py_of>},
    {"aten.ldexp.Tensor", ldexp_by_tensor, has_real_float_result},
    {"aten.heaviside", formula_of_two<heaviside_of>},
    {"aten.fmax", number_of_two<maximum>},
    {"aten.fmin", number_of_two<minimum>},
    {"aten.nan_to_num", nan_to_num, has_real_result},
    {"aten.round.decimals", round_at_digit, is_single_or_double},
    {"aten.addcmul", formula_of_two_with_numbers<add_combined<kTimes>>},
    {"aten.addcdiv", formula_of_two_with_numbers<add_combined<kOver>>},
    {"aten.lerp.Tensor", formula_of_two_with_numbers<lerp_by_tensor>, has_real_result},
};

}  // namespace

std::span<const LoweringRow> pointwise_math_lowerings() { return kMathRows; }

}  // namespace diptych::detail
