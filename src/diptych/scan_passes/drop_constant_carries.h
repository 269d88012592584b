// Takes out of scans the carries that never change.
#pragma once
#include "diptych/graph/graph.h"

namespace diptych {

/// Returns `graph` with each carry that every step hands on as it came among the operands that all steps read alike;
/// its last value is the first. Slots of the graph are kept; idempotent.
Graph drop_constant_carries(const Graph& graph);

}  // namespace diptych
