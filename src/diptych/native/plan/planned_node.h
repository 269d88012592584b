// hop.planned: a loop or a branch that runs as native steps. Its body holds nothing but that node, so that whoever has
// no plan for it can still run it.
#pragma once
#include "diptych/graph/graph.h"

namespace diptych::detail {

/// The schema of hop.planned, with the interpreter's rule registered: it runs the body's plan, and the body itself by
/// the interpreter where it has none, where a call's tensors are not what it was made for, and while kernels are timed
/// or checked. Where sizes are dynamic there is a plan for each set of sizes.
const HopSchema& planned_schema();

bool is_planned(const Node& node);

/// Returns `graph` with its loops and branches, those in bodies included, as hop.planned nodes. Nodes with effects stay
/// what they are. Requires: a graph that was fused. Ensures: slots are kept.
Graph with_planned_loops(const Graph& graph);

}  // namespace diptych::detail
