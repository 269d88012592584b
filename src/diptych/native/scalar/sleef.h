// Functions of SLEEF, which libtorch_cpu exports: those that ATen's vectorized kernels call.
#pragma once
#include <string>
#include <string_view>

#include "diptych/native/scalar/scalar_code.h"

namespace diptych::detail {

/// Writes a call of SLEEF's function of this name on as many lanes as the target's vectors have: a longer vector is cut
/// into pieces, a scalar fills the first lane. Returns the name of the result. Requires: f32 or f64 operands; a target
/// with SLEEF.
std::string write_sleef_call(LlvmWriter& writer, std::string_view name, const ScalarCall& call);

}  // namespace diptych::detail
