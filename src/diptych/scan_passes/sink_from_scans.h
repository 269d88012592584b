// Moves computations that need not run step by step out of scans: sums over the steps, and what only stacked outputs
// need.
//
//   acc' = acc + mm(t(x), g)  for stacks x and g   ==>   acc + mm(all x as one matrix, all g as one)
#pragma once
#include "diptych/graph/graph.h"
#include "diptych/scan_passes/sink_plan.h"

namespace diptych::detail {

/// Returns `graph` with running sums and outputs of scans computed after the loop, from stacks of the loop's values, if
/// that is less work; see Note [What is sunk]. Rounding may differ: sums are added up in another order. Slots of the
/// graph are kept; idempotent.
Graph sink_from_scans(const Graph& graph);

/// Does the same for one scan; returns false if there is nothing to do.
bool sink(ScanEdit& edit, const SinkOptions& options);

}  // namespace diptych::detail
