// The checker of kernels: what all code that reads a kernel may rely on.
#pragma once
#include <optional>
#include <string>

#include "diptych/native/kernel/kernel.h"

namespace diptych::detail {

/// What is wrong with a kernel. The text names the line; `line` counts the values and then the stores, and is none
/// where the fault is the header's.
struct KernelProblem {
  std::optional<size_t> line;
  std::string what;
};

/// Returns the first thing that is wrong: a name that is no word; too many dims, negative extents or hints, symbols or
/// dims out of range; dtypes that kernels do not store; values used before they are made; an index that is no i64; a
/// load of a dtype that its input has not; a mask that is no b8; an operation on a wrong number of operands, on dtypes
/// that its row of the table does not have, or with a wrong result; constants that their dtype does not hold exactly; a
/// reduction over nothing; stores that are no `add` and, as far as can be told, write one element at several points;
/// outputs that are never stored.
std::optional<KernelProblem> find_problem(const Kernel& kernel);

}  // namespace diptych::detail
