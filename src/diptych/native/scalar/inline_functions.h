// Functions of f32 that are written out, so that the latency of one element hides behind the next one's: a call would
// have all registers saved, and takes its vectors one after the other.
#pragma once
#include <string>

#include "diptych/native/scalar/op_code.h"

namespace diptych::detail {

/// e to the power of the operand: 0.98 units in the last place at most (found on 3 million numbers in [-80, 80]).
/// Source: the reduction by Cody and Waite ("Software Manual for the Elementary Functions", 1980), with SLEEF's
/// numbers.
std::string write_exp(const OpCode& op);
/// The hyperbolic tangent: 1.04 units in the last place at most (3 million numbers in [-9, 9] and small ones).
std::string write_tanh(const OpCode& op);
/// The error function: 0.96 units in the last place at most (300,000 numbers in [-5, 5] and small ones). Source: the
/// two minimax polynomials that N. Juffa published for erff.
std::string write_erf(const OpCode& op);

}  // namespace diptych::detail
