// Chooses the values that one checkpoint region keeps when it may keep a part of what eager would.
#pragma once
#include <vector>

#include "diptych/passes/partition.h"

namespace diptych::detail {

/// Decides about each of `members`, the forward nodes of the region at `path`, by number: kSave or kRecompute so that
/// the region's own values that are saved take at most `fraction` of the bytes that the default partition saves of
/// them; kAuto for all if `fraction` is 1. Other regions are ignored, so that what one region keeps does not depend on
/// another. Ensures: the bytes that the split saves never grow as `fraction` falls from below 1.
std::vector<Rematerialize> keep_within_budget(const Joint& joint, InternedString path,
                                              const std::vector<size_t>& members, double fraction);

}  // namespace diptych::detail
