// Numbers taken apart, neighbours of floating-point numbers, and common divisors. Floating-point numbers are handled as
// their bits, for the plugin may take those that are not normal for zero.
#include <limits>

#include "diptych/xla/hlo/hlo_term.h"
#include "diptych/xla/hlo/lowering_loops.h"

namespace diptych::detail {
namespace {

HloTerm as_bits(const HloTerm& x) { return x.with(x.writer().bitcast(x.value(), bits_of(x.dtype()), x.value().sizes)); }
HloTerm as_float(const HloTerm& bits, at::ScalarType dtype) {
  return bits.with(bits.writer().bitcast(bits.value(), dtype, bits.value().sizes));
}
HloTerm sign_bit_like(const HloTerm& bits) {
  const int64_t narrow =
      bits.dtype() == at::kInt ? std::numeric_limits<int32_t>::min() : std::numeric_limits<int16_t>::min();
  return bits.like(bits.dtype() == at::kLong ? std::numeric_limits<int64_t>::min() : narrow);
}
HloTerm whole(const HloTerm& like, int64_t number) { return like.like(at::Scalar(number)); }

// Bits are a sign and a size; counted from zero up and down they are in the numbers' order.
HloTerm next_after(const HloTerm& x, const HloTerm& y) {
  const HloTerm from_bits = as_bits(x), to_bits = as_bits(y), sign = sign_bit_like(from_bits), zero = whole(sign, 0);
  const auto counted = [&](const HloTerm& bits) { return (bits < zero).choose(sign - bits, bits); };
  const HloTerm from = counted(from_bits), to = counted(to_bits);
  const HloTerm next = (from < to).choose(from + whole(from, 1), from - whole(from, 1));
  // A step to zero keeps the sign.
  const HloTerm back = next.equals(zero).choose(from_bits & sign, (next < zero).choose(sign - next, next));
  const HloTerm result = as_float(from.equals(to).choose(to_bits, back), x.dtype());
  return (x.is_nan() | y.is_nan()).choose(std::numeric_limits<double>::quiet_NaN(), result);
}
std::vector<Hlo> nextafter(const Lowering& node) {
  const auto operand = [&](size_t i) { return HloTerm(node.writer(), node.spread(i, node.dtype())); };
  return {next_after(operand(0), operand(1)).value()};
}

/// Where the parts of a number stand in its bits.
struct FloatFormat {
  int64_t fraction_bits, exponent_mask, half_exponent;  ///< the exponent field of 0.5
};

// A number that is not normal is its fraction times a power of two; the fraction alone is normal.
std::vector<Hlo> take_apart(const Lowering& node) {
  const HloTerm x = HloTerm(node.writer(), node.converted(0, Lowering::wide(node.dtype())));
  const FloatFormat format = x.dtype() == at::kDouble ? FloatFormat{52, 2047, 1022} : FloatFormat{23, 255, 126};
  const HloTerm bits = as_bits(x), sign = bits & sign_bit_like(bits), size = bits - sign;
  const auto exponent_of = [&](const HloTerm& of) {
    return of.binary("shift_right_logical", whole(of, format.fraction_bits));
  };
  const HloTerm is_tiny = exponent_of(size).equals(whole(size, 0));
  const HloTerm scaled = as_bits(size.to(x.dtype())), normal = is_tiny.choose(scaled, size);
  const HloTerm shift = is_tiny.choose(whole(size, format.half_exponent + format.fraction_bits), whole(size, 0));
  const HloTerm field = exponent_of(normal), exponent = field - whole(field, format.half_exponent) - shift;
  const HloTerm fraction = normal & whole(normal, (int64_t{1} << format.fraction_bits) - 1);
  const HloTerm half = whole(field, format.half_exponent).binary("shift_left", whole(field, format.fraction_bits));
  const HloTerm mantissa = as_float(sign | fraction | half, x.dtype());
  const HloTerm is_itself = size.equals(whole(size, 0)) | field.equals(whole(field, format.exponent_mask));
  return {is_itself.choose(x, mantissa).to(node.dtype(0)).value(),
          is_itself.choose(whole(exponent, 0), exponent).to(at::kInt).value()};
}

// Euclid's algorithm in all elements at once, until the last of them is finished.
HloTerm common_divisor(const HloTerm& x, const HloTerm& y) {
  const auto is_open = [](HloWriter& writer, std::span<const Hlo> state) {
    return std::vector<Hlo>{any_set(writer, HloTerm(writer, state[0]).differs(0.0).value())};
  };
  const auto step = [](HloWriter& writer, std::span<const Hlo> state) {
    const HloTerm a(writer, state[0]), b(writer, state[1]), is_done = a.equals(0.0);
    const HloTerm rest = b.binary("remainder", is_done.choose(1.0, a));
    return std::vector<Hlo>{is_done.choose(a, rest).value(), is_done.choose(b, a).value()};
  };
  return x.with(x.writer().while_loop({x.abs().value(), y.abs().value()}, is_open, step)[1]);
}
HloTerm gcd_of(const HloTerm& x, const HloTerm& y) { return common_divisor(x, y); }

// C++ multiplies narrow whole numbers as wider ones.
HloTerm lcm_of(const HloTerm& x, const HloTerm& y) {
  const auto wide = c10::elementSize(x.dtype()) < 4 ? at::kInt : x.dtype();
  const HloTerm divisor = common_divisor(x, y).to(wide), is_none = divisor.equals(0.0);
  const HloTerm product = x.to(wide) / is_none.choose(1.0, divisor) * y.to(wide);
  return is_none.choose(0.0, product.abs());
}
bool has_neighbours(const Lowering& node) { return node.dtype() != at::kHalf; }

constexpr LoweringRow kBitsRows[] = {
    {"aten.nextafter", nextafter, has_neighbours},
    {"aten.frexp.Tensor", take_apart},
    {"aten.gcd", formula_of_two<gcd_of>, has_whole_result},
    {"aten.lcm", formula_of_two<lcm_of>, has_whole_result},
};

}  // namespace

std::span<const LoweringRow> pointwise_bits_lowerings() { return kBitsRows; }

}  // namespace diptych::detail
