#include "diptych/native/scalar/special_functions.h"

#include <fmt/format.h>
#include <initializer_list>
#include <limits>
#include <numbers>

#include "diptych/native/kernel/scalar_op.h"
#include "diptych/native/scalar/casts.h"
#include "diptych/native/scalar/sleef.h"

namespace diptych::detail {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// A value of the operands' dtype with the arithmetic of kernels.
class Number {
 public:
  Number(const OpCode& op, std::string name) : op_(&op), name_(std::move(name)) {}

  const std::string& name() const { return name_; }
  Number like(double value) const {
    return {*op_, op_->constant(op_->dtype() == at::kFloat ? static_cast<double>(static_cast<float>(value)) : value)};
  }
  Number apply(std::string_view op) const { return {*op_, call(op, {name_})}; }
  Number apply(std::string_view op, const Number& y) const { return {*op_, call(op, {name_, y.name_})}; }
  /// This times y plus z, rounded once.
  Number fma(const Number& y, const Number& z) const {
    return {*op_, op_->intrinsic("llvm.fma", {name_, y.name_, z.name_})};
  }
  /// A condition.
  std::string is(std::string_view comparison, double y) const { return call(comparison, {name_, like(y).name_}); }
  Number where(const std::string& condition, const Number& other) const {
    return {*op_, op_->select(condition, name_, other.name_)};
  }

  Number operator+(const Number& y) const { return apply("add", y); }
  Number operator-(const Number& y) const { return apply("sub", y); }
  Number operator*(const Number& y) const { return apply("mul", y); }
  Number operator/(const Number& y) const { return apply("div", y); }
  Number operator-() const { return apply("neg"); }

 private:
  std::string call(std::string_view op, std::vector<std::string> operands) const {
    const ScalarOp* row = find_scalar_op(op);
    const at::ScalarType result = row->result == ResultRule::kBool ? at::kBool : op_->dtype();
    return write_scalar_op(op_->writer(), {row, op_->dtype(), result, std::move(operands), op_->call().lanes});
  }

  const OpCode* op_;
  std::string name_;
};

Number operator-(double x, const Number& y) { return y.like(x) - y; }
Number operator/(double x, const Number& y) { return y.like(x) / y; }

// By Horner's scheme, from the highest power on.
Number polynomial(const Number& x, std::initializer_list<double> coefficients) {
  Number sum = x.like(*coefficients.begin());
  for (const double* next = coefficients.begin() + 1; next != coefficients.end(); ++next) sum = sum * x + x.like(*next);
  return sum;
}

// pi / tan(pi x), in f64, which keeps the digits near the function's poles.
std::string pi_over_tangent(const OpCode& op, const std::string& x) {
  const int lanes = op.call().lanes;
  LlvmWriter& w = op.writer();
  const std::string wide = write_cast(w, op.dtype(), at::kDouble, x, lanes);
  const ScalarCall call{op.call().op, at::kDouble, at::kDouble, {wide}, lanes};
  const OpCode at_double(w, call);
  const Number pi = Number(at_double, wide).like(std::numbers::pi);
  const Number quotient = pi / (Number(at_double, wide) * pi).apply("tan");
  return write_cast(w, at::kDouble, op.dtype(), quotient.name(), lanes);
}

// Adds 1 until x is 10 or more, where the asymptotic series holds; x must not be negative.
Number digamma_of_positive(Number x) {
  constexpr int kMostSteps = 10;
  constexpr double kSeriesFrom = 10;
  Number result = x.like(0);
  for (int i = 0; i < kMostSteps; ++i) {
    const std::string is_small = x.is("lt", kSeriesFrom);
    result = (result - 1 / x).where(is_small, result);
    x = (x + x.like(1)).where(is_small, x);
  }
  const Number z = 1 / (x * x);
  const Number series =
      z * polynomial(z, {1.0 / 12, -691.0 / 32760, 1.0 / 132, -1.0 / 240, 1.0 / 252, -1.0 / 120, 1.0 / 12});
  return result + x.apply("log") - 0.5 / x - series;
}

// x - (erf(x) - y) / erf'(x): a step of Newton's method.
Number closer_to_inverse(const Number& x, const Number& y) {
  const Number slope = x.like(2 * std::numbers::inv_sqrtpi) * (-(x * x)).apply("exp");
  return x - (x.apply("erf") - y) / slope;
}

// Rational approximations near zero and near the ends, and two steps of Newton's method.
Number inverse_of_erf(const Number& y) {
  const Number size = y.apply("abs"), square = y * y;
  const Number central = y * polynomial(square, {-0.140543331, 0.914624893, -1.645349621, 0.886226899}) /
                         polynomial(square, {0.012229801, -0.329097515, 1.442710462, -2.118377725, 1});
  const Number root = (-((1 - size) / y.like(2)).apply("log")).apply("sqrt");
  const Number outer = polynomial(root, {1.641345311, 3.429567803, -1.624906493, -1.970840454}).apply("copysign", y) /
                       polynomial(root, {1.637067800, 3.543889200, 1});
  return closer_to_inverse(closer_to_inverse(central.where(size.is("le", 0.7), outer), y), y);
}

// y p(x) by Horner's scheme, from the highest power on; the last coefficient keeps what f32 does not hold of it.
Number exact_product(const Number& y, const Number& x, std::initializer_list<double> coefficients) {
  const double last = *(coefficients.end() - 1), rest = last - static_cast<double>(static_cast<float>(last));
  Number sum = y.like(*coefficients.begin());
  for (const double* next = coefficients.begin() + 1; next != coefficients.end() - 1; ++next) {
    sum = sum.fma(x, y.like(*next));
  }
  return y.fma(y.like(last), y * sum.fma(x, y.like(rest)));
}

// Of f32, as y times a polynomial in what grows as evenly as the quotient does: least squares fits of the relative
// error. 1 - y^2 is rounded once, which is little beside its logarithm where y is not small.
Number inverse_of_float_erf(const Number& y) {
  const Number square = y * y, size = -(-y).fma(y, y.like(1)).apply("log"), root = size.apply("sqrt");
  const Number near_zero = exact_product(y, square,
                                         {0.1582170617, -0.04920412659, 0.08367592385, 0.05910695686, 0.08712066165,
                                          0.1275294149, 0.2320141426, 0.8862269241});
  const Number middle =
      exact_product(y, size - y.like(2.5),
                    {-7.97976335e-09, 2.140575148e-08, 4.585072683e-07, -3.446714169e-06, -4.93929447e-06,
                     0.0002183012114, -0.001252769777, -0.004177350163, 0.2466402949, 1.501409355});
  const Number near_ends =
      exact_product(y, root - y.like(3),
                    {-2.921983759e-05, 0.0001603405045, -0.0002780127613, -0.0001197596141, 0.001475450962,
                     -0.003567211231, 0.005687604253, -0.007642747817, 0.009445312476, 1.001675236, 2.832976801});
  // At -0 the last coefficient's rest may have the other sign.
  return near_zero.apply("copysign", y).where(square.is("lt", 0.36), middle.where(size.is("lt", 5), near_ends));
}

// SLEEF's function where x is at most `limit` in size, and `far` of the size beyond.
template <class Far>
std::string write_with_tail(const OpCode& op, std::string_view name, double limit, const Far& far) {
  const Number x(op, op[0]), size = x.apply("abs");
  const Number near(op, write_sleef_call(op.writer(), name, op.call()));
  return far(size).where(size.is("gt", limit), near).name();
}

double hyperbolic_limit(const OpCode& op) { return op.dtype() == at::kFloat ? 80 : 700; }
Number half_of_exp(const Number& size) {
  const Number root = (size * size.like(0.5)).apply("exp");
  return root * size.like(0.5) * root;
}

// The terms that are left out are of the order of 1 / x ** 2.
constexpr double kLargeForArea = 1e9;
Number log_of_twice(const Number& size) { return size.apply("log") + size.like(std::numbers::ln2); }

}  // namespace

std::string write_erfinv(const OpCode& op) {
  const Number y(op, op[0]), size = y.apply("abs");
  const Number inside = op.dtype() == at::kFloat ? inverse_of_float_erf(y) : inverse_of_erf(y);
  const Number end = y.like(kInfinity).apply("copysign", y).where(size.is("eq", 1), y.like(kNan));
  return inside.where(size.is("lt", 1), end).name();
}

std::string write_digamma(const OpCode& op) {
  const Number x(op, op[0]), whole = x.apply("trunc");
  const std::string is_negative = x.is("lt", 0), is_whole = op.compare("oeq", x.name(), whole.name());
  const Number positive = digamma_of_positive((1 - x).where(is_negative, x));
  const Number reflected = positive - Number(op, pi_over_tangent(op, (x - whole).name()));
  const Number inside = reflected.where(is_negative, positive);
  const Number no_pole = x.like(kNan).where(op.logic("and", is_negative, is_whole), inside);
  return x.like(kInfinity).apply("copysign", -x).where(x.is("eq", 0), no_pole).name();
}

std::string write_sinh(const OpCode& op) {
  return write_with_tail(op, "sinh", hyperbolic_limit(op),
                         [&](const Number& size) { return half_of_exp(size).apply("copysign", Number(op, op[0])); });
}

std::string write_cosh(const OpCode& op) { return write_with_tail(op, "cosh", hyperbolic_limit(op), half_of_exp); }

std::string write_asinh(const OpCode& op) {
  return write_with_tail(op, "asinh", kLargeForArea,
                         [&](const Number& size) { return log_of_twice(size).apply("copysign", Number(op, op[0])); });
}

std::string write_acosh(const OpCode& op) {
  return write_with_tail(op, "acosh", kLargeForArea, [&](const Number& size) {
    const Number x(op, op[0]);
    return log_of_twice(size).where(x.is("gt", 0), x.like(kNan));
  });
}

// Bit by bit of the exponent, until it has no more in any lane. Lanes that nobody reads may hold anything, hence the
// freeze.
std::string write_integer_power(const OpCode& op) {
  LlvmWriter& w = op.writer();
  const std::string zero = op.constant(0), one = op.constant(1), minus_one = op.constant(-1);
  const std::string exponent = w.value("freeze {} {}", op.type(), op[1]);
  const auto variable = [&](const std::string& first) {
    std::string name = w.variable(op.type());
    w.line("store {} {}, ptr {}", op.type(), first, name);
    return name;
  };
  const auto value_of = [&](const std::string& of) { return w.value("load {}, ptr {}", op.type(), of); };
  const auto set = [&](const std::string& to, const std::string& value) {
    w.line("store {} {}, ptr {}", op.type(), value, to);
  };
  const std::string result = variable(one), power = variable(op[0]), left = variable(exponent);
  const std::string head = w.fresh_block("head"), body = w.fresh_block("body"), after = w.fresh_block("after");
  w.line("br label %{}", head);
  w.block(head);
  std::string has_more = op.compare("ne", value_of(left), zero);
  if (op.call().lanes > 0) {
    const std::string any = fmt::format("@llvm.vector.reduce.or.v{}i1", op.call().lanes);
    w.declare(fmt::format("i1 {}({})", any, op.bool_type()));
    has_more = w.value("call i1 {}({} {})", any, op.bool_type(), has_more);
  }
  w.line("br i1 {}, label %{}, label %{}", has_more, body, after);
  w.block(body);
  const std::string bits = value_of(left), square = value_of(power);
  const std::string is_odd = op.compare("ne", op.binary("and", bits, one), zero);
  set(result, op.binary("mul", value_of(result), op.select(is_odd, square, one)));
  set(power, op.binary("mul", square, square));
  set(left, op.binary("lshr", bits, one));
  w.line("br label %{}", head);
  w.block(after);
  const std::string raised = value_of(result);
  if (op.is_unsigned()) return raised;
  const std::string is_odd_whole = op.compare("ne", op.binary("and", exponent, one), zero);
  const std::string of_minus_one = op.select(is_odd_whole, minus_one, one);
  const std::string of_others = op.select(op.compare("eq", op[0], one), one, zero);
  const std::string inverse = op.select(op.compare("eq", op[0], minus_one), of_minus_one, of_others);
  return op.select(op.compare("slt", exponent, zero), inverse, raised);
}

}  // namespace diptych::detail
