// Sums of which at most one term is not zero.
#pragma once
#include "diptych/backends/native/kernel/kernel.h"

namespace diptych::detail {

/// Returns the kernel without sums over positions of which a comparison picks one, as the gradient of cross-entropy has
/// them: the sum over d of `select(eq(u, d), a, 0)`, where u and a do not vary along d, is a where u is one of d's
/// positions, and 0 elsewhere.
Kernel without_one_hot_sums(const Kernel& kernel);

}  // namespace diptych::detail
