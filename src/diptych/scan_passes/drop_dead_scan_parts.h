// Removes useless parts of scans: carries and stacks that are not read, operands that the body does not read, and
// operands that are passed twice.
#pragma once
#include "diptych/graph/graph.h"

namespace diptych::detail {

/// Returns `graph` with scans that carry, stack and take no more than their results need. Nodes that draw random
/// numbers stay, with the carries that they depend on. Slots of the graph are kept; idempotent.
Graph drop_dead_scan_parts(const Graph& graph);

}  // namespace diptych::detail
