// What a node costs to run, estimated from shapes only. The partitioner weighs recomputing against saving by it.
#pragma once
#include <cstdint>

#include "diptych/graph/graph.h"

namespace diptych::detail {

/// Work of one node.
struct Cost {
  int64_t flops = 0;  ///< floating-point operations; a transcendental function counts as several
  int64_t bytes = 0;  ///< read from and written to memory; 0 for views
};

/// Estimates the cost of `node`, by the hints of dynamic sizes. A higher-order operator costs as much as the nodes of
/// its subgraphs, each run once: the number of steps is not known here.
Cost cost(const Graph& graph, const Node& node);

/// Converts a cost to time on a nominal machine of 50 GFLOP/s and 10 GB/s, whichever bounds it, plus the cost of
/// calling an operator. Only ratios of times are meaningful. Units: ns.
int64_t nominal_ns(const Cost& cost);

}  // namespace diptych::detail
