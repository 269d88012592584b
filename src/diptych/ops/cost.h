// What a node costs to run, estimated from shapes alone: the partitioner weighs recomputing against saving with it.
#pragma once
#include <cstdint>

#include "diptych/graph/graph.h"

namespace diptych {

/// Work of one node.
struct Cost {
  int64_t flops = 0;  ///< floating-point operations; a transcendental function counts as several
  int64_t bytes = 0;  ///< read from and written to memory; 0 for views
};

/// Estimates the cost of `node`, by the hints of dynamic sizes. A higher-order operator costs what the nodes of its
/// subgraphs cost once: trip counts are not known here.
Cost cost(const Graph& graph, const Node& node);

/// Converts a cost to time on a nominal machine of 50 GFLOP/s and 10 GB/s, whichever bounds it, plus the cost of
/// calling an operator. Only ratios of it mean something. Units: ns.
int64_t nominal_ns(const Cost& cost);

}  // namespace diptych
