// What looks at a number's parts: bits, signs, and the real and imaginary parts of complex numbers.
#include <limits>

#include "diptych/xla/hlo/hlo_term.h"

namespace diptych::detail {
namespace {

// A test of one operand in its own dtype; whole numbers are never NaN or infinite.
template <HloTerm (*kTest)(const HloTerm&)>
std::vector<Hlo> test_of(const Lowering& node) {
  return {kTest({node.writer(), node.tensor(0)}).value()};
}
template <HloTerm (*kTest)(const HloTerm&)>
HloTerm of_floats(const HloTerm& x) {
  const bool can_hold = at::isFloatingType(x.dtype()) || at::isComplexType(x.dtype());
  return can_hold ? kTest(x) : x.with(x.writer().constant(false, at::kBool, x.value().sizes));
}
HloTerm is_nan_test(const HloTerm& x) { return x.is_nan(); }
HloTerm is_infinite_test(const HloTerm& x) { return x.is_infinite(); }
HloTerm is_positive_infinity(const HloTerm& x) { return x.equals(std::numeric_limits<double>::infinity()); }
HloTerm is_negative_infinity(const HloTerm& x) { return x.equals(-std::numeric_limits<double>::infinity()); }

// The sign of a float is its first bit, which zeros and NaN have too.
HloTerm has_sign_bit(const HloTerm& x) {
  if (x.dtype() == at::kBool || x.dtype() == at::kByte) {
    return x.with(x.writer().constant(false, at::kBool, x.value().sizes));
  }
  if (!at::isFloatingType(x.dtype())) return x < 0.0;
  return x.with(x.writer().bitcast(x.value(), bits_of(x.dtype()), x.value().sizes)) < 0.0;
}
HloTerm copysign_of(const HloTerm& x, const HloTerm& sign) {
  const HloTerm size = x.abs();
  return has_sign_bit(sign).choose(-size, size);
}

// Shifts by no possible number of bits give what shifting all bits out gives.
HloTerm is_possible_shift(const HloTerm& by) {
  const auto bits = static_cast<double>(8 * c10::elementSize(by.dtype()));
  return by.dtype() == at::kByte ? by < bits : (by >= 0.0) & (by < bits);
}
HloTerm left_shift_of(const HloTerm& x, const HloTerm& by) {
  return is_possible_shift(by).choose(x.binary("shift_left", by), 0.0);
}
HloTerm right_shift_of(const HloTerm& x, const HloTerm& by) {
  if (x.dtype() == at::kByte) return is_possible_shift(by).choose(x.binary("shift_right_logical", by), 0.0);
  const double all = static_cast<double>(8 * c10::elementSize(by.dtype())) - 1;
  return x.binary("shift_right_arithmetic", is_possible_shift(by).choose(by, all));
}

HloTerm joined(const HloTerm& real, const HloTerm& imaginary) {
  return real.with(real.writer().complex(real.value(), imaginary.value()));
}
HloTerm conjugate_of(const HloTerm& x) {
  return at::isComplexType(x.dtype()) ? joined(x.part("real"), -x.part("imag")) : x;
}

HloTerm part_operand(const Lowering& node, size_t index) {
  const auto dtype = at::toRealValueType(node.dtype());
  return {node.writer(), node.spread(index, dtype)};
}
std::vector<Hlo> complex_of_parts(const Lowering& node) {
  return {joined(part_operand(node, 0), part_operand(node, 1)).value()};
}
std::vector<Hlo> complex_of_angle(const Lowering& node) {
  const HloTerm size = part_operand(node, 0), angle = part_operand(node, 1);
  return {joined(size * angle.unary("cosine"), size * angle.unary("sine")).value()};
}

std::vector<Hlo> view_as_real(const Lowering& node) {
  HloWriter& writer = node.writer();
  const Hlo x = node.tensor(0);
  auto sizes = x.sizes;
  sizes.push_back(1);
  const Hlo real = writer.reshape(writer.complex_part("real", x), sizes);
  const Hlo imaginary = writer.reshape(writer.complex_part("imag", x), sizes);
  return {writer.concatenate({real, imaginary}, x.dim())};
}
std::vector<Hlo> view_as_complex(const Lowering& node) {
  HloWriter& writer = node.writer();
  const Hlo x = node.tensor(0);
  const Hlo real = writer.reshape(writer.slice_along(x, x.dim() - 1, 0, 1), node.sizes());
  const Hlo imaginary = writer.reshape(writer.slice_along(x, x.dim() - 1, 1, 2), node.sizes());
  return {writer.complex(real, imaginary)};
}

// Of real numbers, pi where they are negative; NaN stays.
std::vector<Hlo> angle_of(const Lowering& node) {
  const HloTerm x(node.writer(), node.spread(0, node.tensor(0).dtype));
  if (at::isComplexType(x.dtype())) return {x.part("imag").binary("atan2", x.part("real")).value()};
  const HloTerm real = x.to(Lowering::wide(node.dtype()));
  const HloTerm angle = (real < 0.0).choose(real.like(std::numbers::pi), 0.0);
  return as_result(node, real.is_nan().choose(real, angle));
}

std::vector<Hlo> real_part(const Lowering& node) {
  const Hlo x = node.tensor(0);
  return {at::isComplexType(x.dtype) ? node.writer().complex_part("real", x) : x};
}
std::vector<Hlo> imaginary_part(const Lowering& node) { return {node.writer().complex_part("imag", node.tensor(0))}; }

constexpr LoweringRow kPartsRows[] = {
    {"aten.isnan", test_of<of_floats<is_nan_test>>},
    {"aten.isinf", test_of<of_floats<is_infinite_test>>},
    {"aten.isposinf", test_of<of_floats<is_positive_infinity>>},
    {"aten.isneginf", test_of<of_floats<is_negative_infinity>>},
    {"aten.signbit", test_of<has_sign_bit>},
    {"aten.copysign.Tensor", formula_of_two<copysign_of>},
    {"aten.copysign.Scalar", formula_of_two<copysign_of>},
    {"aten.bitwise_left_shift.Tensor", formula_of_two<left_shift_of>, has_whole_result},
    {"aten.bitwise_left_shift.Tensor_Scalar", formula_of_two<left_shift_of>, has_whole_result},
    {"aten.bitwise_left_shift.Scalar_Tensor", formula_of_two<left_shift_of>, has_whole_result},
    {"aten.__lshift__.Tensor", formula_of_two<left_shift_of>, has_whole_result},
    {"aten.__lshift__.Scalar", formula_of_two<left_shift_of>, has_whole_result},
    {"aten.bitwise_right_shift.Tensor", formula_of_two<right_shift_of>, has_whole_result},
    {"aten.bitwise_right_shift.Tensor_Scalar", formula_of_two<right_shift_of>, has_whole_result},
    {"aten.bitwise_right_shift.Scalar_Tensor", formula_of_two<right_shift_of>, has_whole_result},
    {"aten.__rshift__.Tensor", formula_of_two<right_shift_of>, has_whole_result},
    {"aten.__rshift__.Scalar", formula_of_two<right_shift_of>, has_whole_result},
    {"aten._conj", formula_of_one<conjugate_of>},
    {"aten._conj_physical", formula_of_one<conjugate_of>},
    {"aten.conj_physical", formula_of_one<conjugate_of>},
    {"aten.complex", complex_of_parts},
    {"aten.polar", complex_of_angle},
    {"aten.view_as_real", view_as_real},
    {"aten.view_as_complex", view_as_complex},
    {"aten.angle", angle_of},
    {"aten.real", real_part},
    {"aten.imag", imaginary_part},
};

}  // namespace

std::span<const LoweringRow> pointwise_parts_lowerings() { return kPartsRows; }

}  // namespace diptych::detail
