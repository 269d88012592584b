// Reorders sums in the bodies of scans, so that terms that are known before the loop are added first.
//
//   mm(x, W) + mm(h, U) + b  for a slice x and a carry h   ==>   addmm(b, x, W) + mm(h, U)
#pragma once
#include "diptych/graph/graph.h"

namespace diptych::detail {

/// Returns `graph` with the terms of sums in bodies of scans in another order: those that depend on no carry come
/// first, with a product and its bias as one operator, so that they can leave the loop. Rounding may differ. Slots are
/// kept; idempotent.
Graph regroup_scan_sums(const Graph& graph);

}  // namespace diptych::detail
