#include "diptych/native/scalar/inline_functions.h"

#include <fmt/format.h>
#include <initializer_list>

namespace diptych::detail {
namespace {

std::string fma(const OpCode& op, const std::string& a, const std::string& b, const std::string& c) {
  return op.intrinsic("llvm.fma", {a, b, c});
}

// A constant of f32, to which the double is rounded.
std::string number(const OpCode& op, double value) {
  return op.constant(static_cast<double>(static_cast<float>(value)));
}

// Horner's scheme from `sum` on: sum = sum * x + coefficient, for each.
std::string polynomial(const OpCode& op, std::string sum, const std::string& x,
                       std::initializer_list<double> coefficients) {
  for (const double coefficient : coefficients) sum = fma(op, sum, x, number(op, coefficient));
  return sum;
}

std::string integer_splat(const OpCode& op, int value) {
  return op.call().lanes == 0 ? std::to_string(value)
                              : op.writer().splat("i32", std::to_string(value), op.call().lanes);
}

// Two to the power of an i32, which is in the range of exponents of normal numbers.
std::string power_of_two(const OpCode& op, const std::string& exponent) {
  const std::string type = llvm_type("i32", op.call().lanes);
  const std::string biased = op.writer().value("add {} {}, {}", type, exponent, integer_splat(op, 127));
  const std::string bits = op.writer().value("shl {} {}, {}", type, biased, integer_splat(op, 23));
  return op.writer().value("bitcast {} {} to {}", type, bits, op.type());
}

// e^x = 2^q e^s, where q is the whole number next to x / ln 2. ln 2 is split in two, so that s is exact.
struct ExpParts {
  std::string q;  // an i32; any where x is NaN
  std::string power_of_rest;
};

// So added to a number of less than 2^22, it leaves the nearest whole number in the low bits: their unit is 1.
constexpr double kWhole = 0x1.8p23;
constexpr int kBitsOfWhole = 0x4b400000;

// e^s = 1 + s + s^2 P(s) for |s| up to 0.348. P is the polynomial of degree 4 of which the greatest relative error is
// the least, 3.1e-9, before its coefficients are rounded.
ExpParts exp_parts(const OpCode& op, const std::string& x) {
  LlvmWriter& w = op.writer();
  const std::string shifted = fma(op, x, number(op, 1.4426950408889634), number(op, kWhole));
  const std::string q = op.binary("fsub", shifted, number(op, kWhole));
  std::string s = fma(op, q, number(op, -0.693145751953125), x);
  s = fma(op, q, number(op, -1.428606765330187045e-06), s);
  const std::string power =
      polynomial(op, number(op, 1.3814010432377604e-3), s,
                 {8.36900087516476e-3, 4.166841569371957e-2, 0.1666651828258887, 0.49999993289024225, 1, 1});
  const std::string integers = llvm_type("i32", op.call().lanes);
  const std::string bits = w.value("bitcast {} {} to {}", op.type(), shifted, integers);
  return {w.value("sub {} {}, {}", integers, bits, integer_splat(op, kBitsOfWhole)), power};
}

// Adds to the exponent: the result is a normal number.
std::string exp_near_zero(const OpCode& op, const std::string& x) {
  LlvmWriter& w = op.writer();
  const ExpParts parts = exp_parts(op, x);
  const std::string integers = llvm_type("i32", op.call().lanes);
  const std::string exponent = w.value("shl {} {}, {}", integers, parts.q, integer_splat(op, 23));
  const std::string bits = w.value("bitcast {} {} to {}", op.type(), parts.power_of_rest, integers);
  return w.value("bitcast {} {} to {}", integers, w.value("add {} {}, {}", integers, bits, exponent), op.type());
}

// 2^q is applied in two halves: results may be subnormal, infinite, or NaN.
std::string exp_anywhere(const OpCode& op, const std::string& x) {
  LlvmWriter& w = op.writer();
  // At these the result is 0 and infinite already; beyond them q would be no exponent any more.
  const std::string low = number(op, -104), high = number(op, 89);
  const std::string capped = op.select(op.compare("ogt", x, high), high, x);
  const ExpParts parts = exp_parts(op, op.select(op.compare("olt", capped, low), low, capped));
  const std::string integers = llvm_type("i32", op.call().lanes);
  const std::string half = w.value("ashr {} {}, {}", integers, parts.q, integer_splat(op, 1));
  const std::string rest = w.value("sub {} {}, {}", integers, parts.q, half);
  return op.binary("fmul", op.binary("fmul", parts.power_of_rest, power_of_two(op, half)), power_of_two(op, rest));
}

// Both ways give the same bits wherever the shorter one may be taken, which is nearly always. Lanes that nobody reads
// may hold anything, hence the freeze.
std::string exp_of(const OpCode& op, const std::string& x) {
  LlvmWriter& w = op.writer();
  std::string is_near = op.compare("olt", op.intrinsic("llvm.fabs", {x}), number(op, 87));
  if (op.call().lanes > 0) {
    const std::string all = fmt::format("@llvm.vector.reduce.and.v{}i1", op.call().lanes);
    w.declare(fmt::format("i1 {}({})", all, op.bool_type()));
    is_near = w.value("call i1 {}({} {})", all, op.bool_type(), is_near);
  }
  const std::string near = w.fresh_block("near"), far = w.fresh_block("far"), joined = w.fresh_block("joined");
  w.line("br i1 {}, label %{}, label %{}", w.value("freeze i1 {}", is_near), near, far);
  w.block(near);
  const std::string at_near = exp_near_zero(op, x);
  w.line("br label %{}", joined);
  w.block(far);
  const std::string at_far = exp_anywhere(op, x);
  w.line("br label %{}", joined);
  w.block(joined);
  return w.value("phi {} [{}, %{}], [{}, %{}]", op.type(), at_near, near, at_far, far);
}

}  // namespace

std::string write_exp(const OpCode& op) { return exp_of(op, op[0]); }

// x + x^3 P(x^2) where x is small, 1 - 2 / (e^2x + 1) elsewhere; the polynomial is a weighted least squares fit.
std::string write_tanh(const OpCode& op) {
  const std::string size = op.intrinsic("llvm.fabs", {op[0]}), square = op.binary("fmul", size, size);
  const std::string p =
      polynomial(op, number(op, -5.122302565723658e-3), square,
                 {2.0071811810135841e-2, -5.355019494891167e-2, 0.13328960537910461, -0.333331823348999});
  const std::string small = fma(op, op.binary("fmul", p, square), size, size);
  const std::string one = op.constant(1), two = op.constant(2);
  const std::string power = exp_of(op, op.binary("fmul", size, two));
  const std::string large = op.binary("fsub", one, op.binary("fdiv", two, op.binary("fadd", power, one)));
  const std::string is_small = op.compare("olt", size, number(op, 0.7));
  return op.intrinsic("llvm.copysign", {op.select(is_small, small, large), op[0]});
}

std::string write_erf(const OpCode& op) {
  const std::string size = op.intrinsic("llvm.fabs", {op[0]}), square = op.binary("fmul", op[0], op[0]);
  const std::string even = polynomial(op, number(op, -1.72853470e-5), size, {3.83197126e-4});
  const std::string odd = polynomial(op, number(op, -3.88396438e-3), size, {2.42546219e-2});
  std::string power =
      polynomial(op, fma(op, even, square, odd), size, {-1.06777877e-1, -6.34846687e-1, -1.28717512e-1});
  power = fma(op, power, size, op.writer().value("fneg {} {}", op.type(), size));
  const std::string rest = op.binary("fsub", op.constant(1), exp_of(op, power));
  const std::string large = op.intrinsic("llvm.copysign", {rest, op[0]});
  const std::string p = polynomial(op, number(op, -5.96761703e-4), square,
                                   {4.99119423e-3, -2.67681349e-2, 1.12819925e-1, -3.76125336e-1, 1.28379166e-1});
  const std::string is_large = op.compare("ogt", size, number(op, 0.927734375));
  return op.select(is_large, large, fma(op, p, op[0], op[0]));
}

}  // namespace diptych::detail
