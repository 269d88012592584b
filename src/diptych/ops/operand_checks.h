// What eager's kernels check of their operands' dtypes, sizes and numbers, and kernels for shapes do not.
#pragma once
#include <ATen/core/ivalue.h>
#include <c10/util/ArrayRef.h>

#include "diptych/graph/op.h"

namespace diptych::detail {

/// Refuses what eager's kernel refuses, by an error of the same class with the same words. Reads no elements.
using OperandCheck = void (*)(c10::ArrayRef<c10::IValue> arguments);

/// Returns the check of `op`, overload included; null if its kernel for shapes makes it, or there is none. Threads:
/// any.
OperandCheck find_operand_check(const Op& op);

}  // namespace diptych::detail
