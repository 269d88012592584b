// Sums of which at most one term is not zero.
#pragma once
#include "diptych/native/kernel/kernel.h"

namespace diptych::detail {

/// What the terms of such sums may be.
enum class OneHotTerms {
  kEqual,  ///< all the same
  kAny     ///< what the position picks, made of loads at that position: the kernel may then have no schedule
};

/// Returns the kernel without sums over positions of which a comparison picks one, as cross-entropy and its gradient
/// have them: the sum over d of `select(eq(u, d), a, 0)`, where u does not vary along d, is a at u where u is one of
/// d's positions, and 0 elsewhere. In the loss that is one pass less over a row of classes.
Kernel without_one_hot_sums(const Kernel& kernel, OneHotTerms terms);

}  // namespace diptych::detail
