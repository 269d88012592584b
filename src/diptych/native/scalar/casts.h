// Conversions between the dtypes of kernels as LLVM IR.
#pragma once
#include <string>

#include "diptych/native/scalar/llvm_writer.h"

namespace diptych::detail {

/// Writes the conversion of a value (`lanes` 0: a scalar) and returns the name of the result: what `cast` of
/// kernel/scalar_op.h does.
std::string write_cast(LlvmWriter& writer, at::ScalarType from, at::ScalarType to, const std::string& value, int lanes);

}  // namespace diptych::detail
