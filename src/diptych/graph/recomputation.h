// Which nodes of a backward graph compute again what a checkpoint dropped.
#pragma once
#include <string_view>

#include "diptych/graph/graph.h"

namespace diptych::detail {

/// Provenance::origin of the forward nodes that a backward graph runs again.
inline constexpr std::string_view kRecomputeOrigin = "recompute";

/// Whether a node computes again, for a gradient, what a checkpoint region dropped. Its region is then the one that is
/// recomputed. What a partitioner chose to recompute on its own has no region, and doesn't count.
inline bool is_checkpoint_recomputation(const Provenance& provenance) {
  return !provenance.region.empty() && provenance.origin.str() == kRecomputeOrigin;
}

}  // namespace diptych::detail
