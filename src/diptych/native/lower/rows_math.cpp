// Elementary and special functions.
#include <limits>
#include <numbers>

#include "diptych/native/lower/row_shapes.h"

namespace diptych::detail {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

template <const char* kOp>
Term plain_function(const Term& x) {
  return x.apply(kOp);
}
template <const char* kOp>
Term plain_function_of_two(const Term& x, const Term& y) {
  return x.apply(kOp, y);
}
template <const char* kOp>
constexpr KernelRow function(std::string_view op) {
  return {op, place_pointwise, formula_of_one<plain_function<kOp>>, has_float_result};
}
template <const char* kOp>
constexpr KernelRow function_of_complex(std::string_view op) {
  return also_complex({op, place_pointwise, formula_of_one<plain_function<kOp>>, has_inexact_result});
}
template <const char* kOp>
constexpr KernelRow function_of_two(std::string_view op) {
  return {op, place_pointwise, formula_of_two<plain_function_of_two<kOp>>, has_float_result};
}

Term degrees_of(const Term& x) { return x * (180 / std::numbers::pi); }
Term radians_of(const Term& x) { return x * (std::numbers::pi / 180); }
Term sinc_of(const Term& x) {
  const Term angle = x * std::numbers::pi;
  return x.equals(0.0).choose(1.0, angle.apply("sin") / angle);
}
Term entropy_of(const Term& x) {
  const Term inside = x.equals(0.0).choose(0.0, (x < 0.0).choose(-kInfinity, -(x * log(x))));
  return x.apply("is_nan").choose(x, inside);
}

Term logit_of(const NodeLowering& node, const Term& x) {
  const double eps = in_dtype(node, node.number(1, -1));
  const Term inside = eps < 0 ? x : minimum(maximum(x, x.like(eps)), x.like(in_dtype(node, 1 - eps)));
  return log(inside / (1.0 - inside));
}
// Outside of the bounds the gradient is zero, or NaN where the node has none.
Term logit_gradient(const NodeLowering& node, const Term& gradient, const Term& x) {
  const double eps = node.number(2, -1), low = in_dtype(node, std::max(eps, 0.0));
  const Term is_outside = (x < low) | (x > in_dtype(node, 1 - low));
  const Term slope = x * (1.0 - x);
  // At -0 ATen's kernel of halves takes the infinity of the gradient's sign.
  const Term divisor = has_dtype(kHalves, node.dtype()) ? abs(slope) : slope;
  return is_outside.choose(eps < 0 ? kNan : 0.0, gradient / divisor);
}

// log(base^x + base^y); equal infinities have no difference.
template <const char* kPower>
Term log_of_sum(const Term& x, const Term& y) {
  const Term power = (-abs(x - y)).apply(kPower);
  const bool is_natural = kPower[3] == '\0';
  const Term tail = is_natural ? power.apply("log1p") : power.apply("log1p") * std::numbers::log2e;
  return (x.apply("is_inf") & x.equals(y)).choose(x, maximum(x, y) + tail);
}

// Zero times the logarithm of anything but NaN is zero.
template <const char* kLog>
Term product_with_log(const Term& x, const Term& y) {
  return y.apply("is_nan").choose(y, x.equals(0.0).choose(0.0, x * y.apply(kLog)));
}

Term heaviside_of(const Term& x, const Term& at_zero) { return x.equals(0.0).choose(at_zero, (x > 0.0).to(x.dtype())); }

double largest_of(at::ScalarType dtype) {
  if (dtype == at::kHalf) return 65504;
  if (dtype == at::kBFloat16) return std::numeric_limits<at::BFloat16>::max();
  return dtype == at::kFloat ? static_cast<double>(std::numeric_limits<float>::max())
                             : std::numeric_limits<double>::max();
}
Terms nan_to_num(NodeLowering& node) {
  const Term x = node.operand(0);
  if (!x.is_float()) return {x};
  const double largest = largest_of(node.dtype());
  const Term low = x.equals(-kInfinity).choose(node.number(3, -largest), x);
  const Term inside = x.equals(kInfinity).choose(node.number(2, largest), low);
  return {x.apply("is_nan").choose(node.number(1, 0), inside)};
}

constexpr char kSqrt[] = "sqrt", kRsqrt[] = "rsqrt", kExp[] = "exp", kExp2[] = "exp2", kExpm1[] = "expm1";
constexpr char kLog[] = "log", kLog2[] = "log2", kLog10[] = "log10", kLog1p[] = "log1p";
constexpr char kSin[] = "sin", kCos[] = "cos", kTan[] = "tan", kAsin[] = "asin", kAcos[] = "acos", kAtan[] = "atan";
constexpr char kSinh[] = "sinh", kCosh[] = "cosh", kTanh[] = "tanh";
constexpr char kAsinh[] = "asinh", kAcosh[] = "acosh", kAtanh[] = "atanh", kAtan2[] = "atan2", kHypot[] = "hypot";
constexpr char kErf[] = "erf", kErfc[] = "erfc", kErfinv[] = "erfinv", kLgamma[] = "lgamma", kDigamma[] = "digamma";

constexpr KernelRow kMathRows[] = {
    function_of_complex<kSqrt>("aten.sqrt"),
    function_of_complex<kRsqrt>("aten.rsqrt"),
    function_of_complex<kExp>("aten.exp"),
    function<kExp2>("aten.exp2"),
    function<kExpm1>("aten.expm1"),
    function_of_complex<kLog>("aten.log"),
    function_of_complex<kLog2>("aten.log2"),
    function_of_complex<kLog10>("aten.log10"),
    function<kLog1p>("aten.log1p"),
    function_of_complex<kSin>("aten.sin"),
    function_of_complex<kCos>("aten.cos"),
    function_of_complex<kTan>("aten.tan"),
    function<kAsin>("aten.asin"),
    function<kAcos>("aten.acos"),
    function<kAtan>("aten.atan"),
    function_of_complex<kSinh>("aten.sinh"),
    function_of_complex<kCosh>("aten.cosh"),
    function_of_complex<kTanh>("aten.tanh"),
    function<kAsinh>("aten.asinh"),
    function<kAcosh>("aten.acosh"),
    function<kAtanh>("aten.atanh"),
    function_of_two<kAtan2>("aten.atan2"),
    function_of_two<kHypot>("aten.hypot"),
    function<kErf>("aten.erf"),
    function<kErfc>("aten.erfc"),
    function<kErfinv>("aten.erfinv"),
    function<kLgamma>("aten.lgamma"),
    function<kDigamma>("aten.digamma"),
    {"aten.deg2rad", place_pointwise, formula_of_one<radians_of>, has_float_result},
    {"aten.rad2deg", place_pointwise, formula_of_one<degrees_of>, has_float_result},
    {"aten.sinc", place_pointwise, formula_of_one<sinc_of>, has_float_result},
    {"aten.special_entr", place_pointwise, formula_of_one<entropy_of>, has_float_result},
    {"aten.logit", place_pointwise, formula_with_numbers<logit_of>, has_float_result},
    {"aten.logit_backward", place_pointwise, formula_of_two_with_numbers<logit_gradient>, has_float_result},
    {"aten.logaddexp", place_pointwise, formula_of_two<log_of_sum<kExp>>, has_float_result},
    {"aten.logaddexp2", place_pointwise, formula_of_two<log_of_sum<kExp2>>, has_float_result},
    {"aten.xlogy.Tensor", place_pointwise, formula_of_two<product_with_log<kLog>>, has_float_result},
    {"aten.xlogy.Scalar_Other", place_pointwise, formula_of_two<product_with_log<kLog>>, has_float_result},
    {"aten.xlogy.Scalar_Self", place_pointwise, formula_of_two<product_with_log<kLog>>, has_float_result},
    {"aten.special_xlog1py", place_pointwise, formula_of_two<product_with_log<kLog1p>>, has_float_result},
    {"aten.heaviside", place_pointwise, formula_of_two<heaviside_of>},
    {"aten.nan_to_num", place_pointwise, nan_to_num},
};

}  // namespace

std::span<const KernelRow> math_rows() { return kMathRows; }

}  // namespace diptych::detail
