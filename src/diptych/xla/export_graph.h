// Graphs for other programs: whole modules, or an error that says what stands in the way.
#pragma once
#include "diptych/graph/graph.h"
#include "diptych/xla/stablehlo_module.h"

namespace diptych::detail {

/// Lowers a whole graph; no plugin is needed.
/// Errors: UserError names a node without a lowering (inside bodies too), a node that draws random numbers, a dtype
/// that StableHLO does not have, a device other than the CPU, or a dynamic size.
StableHloModule export_graph(const Graph& graph);

}  // namespace diptych::detail
