// Which inputs of a kernel its results may be written over.
#pragma once
#include <vector>

#include "diptych/native/kernel/kernel.h"

namespace diptych::detail {

/// Returns, by output, the inputs of its dtype that the kernel reads, at each point, at no other element than the one
/// that it writes there: code that reads before it writes may then have both in one memory. None where the kernel
/// goes through its points more than once, as it does for sums of rows that it uses again.
std::vector<std::vector<int32_t>> overwritable_inputs(const Kernel& kernel);

}  // namespace diptych::detail
