// Adds up first, in the body of a scan, what is known before the loop.
//
//   mm(x, W) + mm(h, U) + b  for a slice x and a carry h   ==>   addmm(b, x, W) + mm(h, U)
#pragma once
#include "diptych/graph/graph.h"

namespace diptych {

/// Returns `graph` with the terms of sums in bodies of scans in another order: those that depend on no carry come
/// first, a product among them with its bias as one operator, so that they can leave the loop. Rounding may differ.
/// Slots are kept; idempotent.
Graph regroup_scan_sums(const Graph& graph);

}  // namespace diptych
