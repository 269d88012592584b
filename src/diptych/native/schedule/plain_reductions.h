// Kernels in terms of the reductions that code is made of.
#pragma once
#include "diptych/native/kernel/kernel.h"

namespace diptych::detail {

/// Returns the kernel with means, squared deviations and logarithms of sums of exponentials written out as sums,
/// largest elements and arithmetic, in two passes where the second needs the first's result (which rounds less than one
/// pass would).
Kernel with_plain_reductions(const Kernel& kernel);

/// Returns the kernel with each reduction over dims both in and out of `row` as two, the inner one over the dims of
/// `row`; positions, which are no such fold, stay.
Kernel with_split_reductions(const Kernel& kernel, DimSet row);

}  // namespace diptych::detail
