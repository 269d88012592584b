// Whether a store writes one element at several points of its domain, which leaves open what it holds afterwards.
#pragma once
#include <string>

#include "diptych/native/kernel/kernel.h"

namespace diptych::detail {

/// Says which dims the map of a store does not keep apart, as far as that can be told; empty if none are found. It can
/// be told of a dim on which the index does not depend, and of two dims with constant coefficients and extents; not of
/// dims that enter through values or symbols.
std::string overlap_fault(const Kernel& kernel, const KernelStore& store, const std::vector<DimSet>& domains);

}  // namespace diptych::detail
