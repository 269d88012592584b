// Functions that SLEEF does not have, or not for all numbers, composed of operations that have code.
#pragma once
#include <string>

#include "diptych/native/scalar/op_code.h"

namespace diptych::detail {

/// The inverse of the error function. f32: 1.5 units in the last place at most (3 million numbers in (-1, 1), among
/// them such as are next to 0 and to the ends); f64 by ATen's formula.
std::string write_erfinv(const OpCode& op);
/// The derivative of lgamma, by ATen's formula.
std::string write_digamma(const OpCode& op);
/// SLEEF's sinh and cosh are infinite from 88.5 (f64: 709) on, where the results are still finite, and its asinh and
/// acosh from the root of the largest number on: beyond that they are composed of exp and log.
std::string write_sinh(const OpCode& op);
std::string write_cosh(const OpCode& op);
std::string write_asinh(const OpCode& op);
std::string write_acosh(const OpCode& op);
/// The power of integers, modulo two to the number of bits: a negative exponent leaves 1 and -1 alone, and makes 0 of
/// the others.
std::string write_integer_power(const OpCode& op);

}  // namespace diptych::detail
