// Removes from scans what nobody wants: carries and stacks that are not read, operands that the body does not read, and
// operands that are given twice.
#pragma once
#include "diptych/graph/graph.h"

namespace diptych {

/// Returns `graph` with scans that carry, stack and take no more than their results need. What draws random numbers
/// stays, with the carries that it depends on. Slots of the graph are kept; idempotent.
Graph drop_dead_scan_parts(const Graph& graph);

}  // namespace diptych
