// Lets a scan stack each value once.
//
//   h' stacked as h goes in and as it comes out   ==>   one stack of h' with the first h in front, and two views of it
#pragma once
#include "diptych/graph/graph.h"

namespace diptych::detail {

/// Returns `graph` with scans that stack no value twice, no view of a value that is stacked anyway and no slice, and
/// that stack a carry as it goes in and as it comes out in one piece of memory (see Note [Stacks with a front]).
/// Results that the graph's caller gets keep memory of their own. How a scan changes depends on nothing but the scan,
/// so that the variants of a joint graph keep the same forward nodes. Slots of the graph are kept; idempotent.
/// Requires: nothing writes to the results of scans, or such writes are refused: a residual may share its memory with
/// an output, as it does when eager saves an operator's result.
Graph reuse_scan_stacks(const Graph& graph);

}  // namespace diptych::detail
