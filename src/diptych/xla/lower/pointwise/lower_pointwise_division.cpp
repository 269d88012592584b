// Division, remainders and powers, whose rounding and integers have rules of their own.
#include <limits>
#include <optional>

#include "diptych/xla/hlo/hlo_term.h"

namespace diptych::detail {
namespace {

// The number that operand `index` is, if it is one.
std::optional<at::Scalar> known_number(const Lowering& node, size_t index) {
  const Operand& operand = node.node().operands[index];
  if (const auto* wrapped = std::get_if<WrappedNumber>(&operand)) return wrapped->number;
  if (std::holds_alternative<Value>(operand)) return std::nullopt;
  return node.scalar(index);
}

// Eager refuses to divide integers by zero, which only a known divisor rules out.
bool divides_exactly(const Lowering& node) {
  const auto dtype = node.dtype();
  if (at::isComplexType(dtype) || dtype == at::kBool) return false;
  if (at::isFloatingType(dtype)) return true;
  const auto divisor = known_number(node, 1);
  return divisor && divisor->isIntegral(true) && divisor->to<int64_t>() != 0;
}

HloTerm quotient(const HloTerm& x, const HloTerm& y) { return x / y; }

// The compiler would turn division by a constant into a product, which may fall short of a whole quotient.
HloTerm truncated_quotient(const HloTerm& x, const HloTerm& y) {
  return at::isFloatingType(x.dtype()) ? (x / y.opaque()).truncated() : x / y;
}

// ATen rounds a divisor that is a number to the tensor's dtype before it takes a remainder.
template <HloTerm (*kFormula)(const HloTerm&, const HloTerm&)>
std::vector<Hlo> by_rounded_divisor(const Lowering& node) {
  const HloTerm divisor(node.writer(), node.spread(1, node.dtype()));
  return as_result(node, kFormula(computed_operand(node, 0), divisor.to(Lowering::wide(node.dtype()))));
}

// The remainder with the divisor's sign, from the one with the dividend's.
HloTerm remainder_of(const HloTerm& x, const HloTerm& y) {
  const HloTerm rest = x.binary("remainder", y);
  if (x.dtype() == at::kByte) return rest;
  const HloTerm is_other_sign = rest.differs(0.0) & (rest < 0.0).differs(y < 0.0);
  return is_other_sign.choose(rest + y, rest);
}
HloTerm fmod_of(const HloTerm& x, const HloTerm& y) { return x.binary("remainder", y); }

// As ATen has it: the quotient that the remainder leaves is whole but for rounding. Source: c10::div_floor_floating.
HloTerm floored_quotient(const HloTerm& x, const HloTerm& y) {
  const HloTerm divisor = at::isFloatingType(x.dtype()) ? y.opaque() : y;
  const HloTerm rest = x.binary("remainder", divisor);
  const HloTerm is_lower = rest.differs(0.0) & (rest < 0.0).differs(divisor < 0.0);
  if (at::isIntegralType(x.dtype(), true)) {
    const HloTerm whole = x / divisor;
    return x.dtype() == at::kByte ? whole : is_lower.choose(whole - 1.0, whole);
  }
  const HloTerm exact = (x - rest) / divisor, lowered = is_lower.choose(exact - 1.0, exact);
  const HloTerm down = lowered.unary("floor"), rounded = ((lowered - down) > 0.5).choose(down + 1.0, down);
  return divisor.equals(0.0).choose(x / divisor, rounded);
}

std::vector<Hlo> divide_with_mode(const Lowering& node) {
  const std::string mode = node.text(2);
  if (mode == "floor") return formula_of_two_exactly<floored_quotient>(node);
  return mode == "trunc" ? formula_of_two_exactly<truncated_quotient>(node) : formula_of_two_exactly<quotient>(node);
}
bool divides_exactly_with_mode(const Lowering& node) { return !node.is_given(2) || divides_exactly(node); }

// x^n by squaring, n >= 1; whole numbers wrap as they do in ATen.
HloTerm whole_power(const HloTerm& x, int64_t n) {
  std::optional<HloTerm> product;
  for (HloTerm square = x;; square = square * square) {
    if (n % 2 == 1) product = product ? *product * square : square;
    n /= 2;
    if (n == 0) return *product;
  }
}

// The same of tensors, where HLO's own reads six bits of an exponent. Negative exponents round to zero, as in ATen, but
// for 1 and -1, of which the lowest bit of an exponent says all.
HloTerm whole_power(const HloTerm& x, const HloTerm& n) {
  const auto bits = static_cast<int64_t>(8 * at::elementSize(n.dtype())) - 1;
  HloTerm power = x.like(1), square = x;
  for (int64_t bit = 0; bit < bits; ++bit) {
    power = (n & n.like(int64_t{1} << bit)).equals(0.0).choose(power, power * square);
    square = square * square;
  }
  return ((n < 0.0) & !(x.equals(1.0) | x.equals(-1.0))).choose(x.like(0), power);
}

// Roots are powers to ATen where the dtype is half: those of -0 and of negative infinity have no sign.
HloTerm root_operand(const HloTerm& x, bool is_half) {
  if (!is_half) return x;
  return (x.equals(0.0) | x.equals(-std::numeric_limits<double>::infinity())).choose(x.abs(), x);
}

// ATen takes these exponents of floats and complex numbers apart, which matters to infinities.
HloTerm power_by_number(const HloTerm& x, const at::Scalar& exponent, bool is_half) {
  if (at::isIntegralType(x.dtype(), true)) {
    const auto n = exponent.to<int64_t>();
    return n == 0 ? x.like(1) : whole_power(x, n);
  }
  if (!exponent.isComplex()) {
    const double n = exponent.to<double>();
    if (n == 0) return x.like(1);
    if (n == 1) return x;
    if (n == 2 || n == 3) return whole_power(x, static_cast<int64_t>(n));
    if (n == 0.5) return root_operand(x, is_half).sqrt();
    if (n == -0.5) return root_operand(x, is_half).unary("rsqrt");
    if (n == -1) return 1.0 / x;
    if (n == -2) return 1.0 / (x * x);
  }
  return x.binary("power", x.like(exponent));
}
std::vector<Hlo> raise(const Lowering& node) {
  const auto exponent = known_number(node, 1);
  if (exponent)
    return as_result(node, power_by_number(computed_operand(node, 0), *exponent, node.dtype() == at::kHalf));
  // HLO would take large exponents of bytes for negative ones.
  const auto wide = node.dtype() == at::kByte ? at::kInt : Lowering::wide(node.dtype());
  const HloTerm x = computed_operand(node, 0).to(wide), n = computed_operand(node, 1).to(wide);
  return as_result(node, at::isIntegralType(wide, true) ? whole_power(x, n) : x.binary("power", n));
}
// Eager refuses a negative number as the exponent of whole numbers; in a tensor it is taken, and powers are rounded to
// zero, as HLO has it.
bool has_exact_power(const Lowering& node) {
  const auto dtype = node.dtype();
  if (at::isFloatingType(dtype)) return true;
  const auto exponent = known_number(node, 1);
  if (!exponent) return at::isIntegralType(dtype, false);
  if (exponent->isComplex()) return false;
  if (at::isComplexType(dtype))
    return exponent->equal(0) || exponent->equal(1) || exponent->equal(2) || exponent->equal(3);
  return dtype != at::kBool && exponent->isIntegral(true) && exponent->to<int64_t>() >= 0;
}

bool has_number_result(const Lowering& node) {
  return at::isFloatingType(node.dtype()) || at::isIntegralType(node.dtype(), false);
}

constexpr LoweringRow kDivisionRows[] = {
    {"aten.div.Tensor", formula_of_two_exactly<quotient>},
    {"aten.div.Scalar", formula_of_two_exactly<quotient>},
    {"aten.div.Tensor_mode", divide_with_mode, divides_exactly_with_mode},
    {"aten.div.Scalar_mode", divide_with_mode, divides_exactly_with_mode},
    {"aten.floor_divide", formula_of_two_exactly<floored_quotient>, divides_exactly},
    {"aten.floor_divide.Scalar", formula_of_two_exactly<floored_quotient>, divides_exactly},
    {"aten.fmod.Tensor", by_rounded_divisor<fmod_of>, divides_exactly},
    {"aten.fmod.Scalar", by_rounded_divisor<fmod_of>, divides_exactly},
    {"aten.remainder.Tensor", by_rounded_divisor<remainder_of>, divides_exactly},
    {"aten.remainder.Scalar", by_rounded_divisor<remainder_of>, divides_exactly},
    {"aten.remainder.Scalar_Tensor", by_rounded_divisor<remainder_of>, divides_exactly},
    {"aten.pow.Tensor_Scalar", raise, has_exact_power},
    {"aten.pow.Tensor_Tensor", raise, has_exact_power},
    {"aten.pow.Scalar", raise, has_number_result},
};

}  // namespace

std::span<const LoweringRow> pointwise_division_lowerings() { return kDivisionRows; }

}  // namespace diptych::detail
