// Takes carries that never change out of scans.
#pragma once
#include "diptych/graph/graph.h"

namespace diptych::detail {

/// Returns `graph` with each carry that every step passes on unchanged turned into a free operand, which all steps
/// read; its last value is the first. Slots of the graph are kept; idempotent.
Graph drop_constant_carries(const Graph& graph);

}  // namespace diptych::detail
