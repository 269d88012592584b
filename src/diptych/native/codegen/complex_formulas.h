// Scalar operations on complex numbers as operations on their parts: one table, a row per operation.
#pragma once
#include <string_view>
#include <vector>

#include "diptych/native/lower/term.h"

namespace diptych::detail {

/// A number by its parts: one term of a real number, two (the real part first) of a complex one.
using NumberParts = Terms;

/// How an operation of which an operand or the result is complex is written on parts. A condition is an operand, too.
struct ComplexFormula {
  std::string_view op;
  NumberParts (*write)(const std::vector<NumberParts>& operands);
};

/// The row of an operation; null if there is none: then kernels have no code for it.
///
/// Formulas are those of ATen, which takes c10's arithmetic and the C library's functions: products without
/// contraction, so that equal products cancel and infinite ones do not; quotients by Smith's rule; functions with care
/// near their zeros, past the end of the dtype's numbers, and at infinities and NaN as C99 has it. (ATen's own
/// vectorized and scalar loops differ in the sign of zeros: 0 - x and -x.)
const ComplexFormula* find_complex_formula(std::string_view op);

}  // namespace diptych::detail
