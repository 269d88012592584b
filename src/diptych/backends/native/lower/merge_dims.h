// Dims of a kernel that always run together become one.
#pragma once
#include "diptych/backends/native/kernel/kernel.h"

namespace diptych::detail {

/// Merges each dim with the next inner one where all maps step through the two as through one, and each reduction ends
/// both or neither; leaves out dims that nothing runs along, and those of one position. Results are the same, also the
/// positions that argmin and argmax find.
///
///   kernel f(d0=4, d1=8) { ... load x0[8*d0 + d1] ... store y0[8*d0 + d1] }
/// ==>
///   kernel f(d0=32) { ... load x0[d0] ... store y0[d0] }
///
/// Requires: a kernel that verifies. Dims whose extent or coefficient is a symbol stay.
void merge_dims(Kernel& kernel);

}  // namespace diptych::detail
