// How much memory the results of a graph take, told before it runs.
#pragma once
#include <cstdint>
#include <vector>

#include "diptych/graph/graph.h"

namespace diptych::detail {

/// Bytes of the pool's blocks (result_pool.h) during one run, by the sizes that were traced. The results of kernels,
/// products and planned loops are in the pool, and so is what the steps of such a loop have while it runs; the results
/// of other operators are LibTorch's.
struct MemoryPlan {
  int64_t peak = 0;      ///< live at once at most
  int64_t escaping = 0;  ///< live when the run ends: outputs, and what they are views of
};

/// Follows a graph's nodes in their order, as the interpreter runs it: a value is freed behind its last reader, and a
/// kernel writes over an input that nothing else holds where it may. `donated` says by input which tensors are in the
/// pool and nobody else's; none are if it is empty. A body counts with its own peak while its node runs.
/// Requires: a graph with hop.fused nodes.
MemoryPlan plan_memory(const Graph& graph, const std::vector<bool>& donated = {});

}  // namespace diptych::detail
