// Sums at places that indices name: the gradient of a table that was gathered from.
#pragma once
#include <vector>

#include "diptych/native/kernel/kernel.h"

namespace diptych::detail {

// Note [Scattered sums]
// A node that adds slices at the places that indices name is lowered as what it means: at each position of the result
// the sum, over all slices, of those whose index is the position. Computed so, it would visit every position for every
// slice. Where such a sum is stored, or what it is added to beside it, code is made of two kernels instead, which run
// one after the other: one stores what the sum is added to, or zero, the other has a store that adds.
// The additions to one element keep the order of the slices, and one thread does them all.

/// Returns kernels that together do what `kernel` does: with its scattered sums as stores that add, and stores apart
/// that do not run along the same dims. If it has no stores that add, that is the kernel itself.
std::vector<Kernel> kernels_without_scattered_sums(const Kernel& kernel);

/// Whether a sum is left that goes through all positions for each slice.
bool has_scattered_sum(const Kernel& kernel);

/// Along which dims no two points add to the same element, as far as the maps of all stores that add tell. Requires:
/// all stores of the kernel add.
DimSet dims_apart(const Kernel& kernel);

}  // namespace diptych::detail
