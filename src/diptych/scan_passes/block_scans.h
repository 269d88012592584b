// Runs long scans in blocks of steps.
//
//   scan of T steps, h' = tanh(mm(x, W) + mm(h, U))   ==>   blocked scan of T steps, 32 at a time:
//       p = mm(32 x, W), then a scan of 32 steps, h' = tanh(p + mm(h, U))
#pragma once
#include "diptych/passes/simplify.h"

namespace diptych::detail {

/// Which scans are blocked, and how. Units: bytes, steps.
struct BlockLimits {
  int64_t block_bytes = int64_t{1} << 20;  ///< slices and stacks of a block: half of a core's second-level cache
  int64_t least_bytes = int64_t{8} << 20;  ///< of all steps; fewer stay in caches anyway
  int64_t fewest_steps = 8;                ///< in a block; fewer at a time are no better than one
};

/// Note [Blocks]: values that hoist_from_scans and sink_from_scans compute for all steps at once go through memory. For
/// a block of steps at a time they stay in the caches, and their stacks are only as long as a block.
/// Returns `graph` with scans turned into hop.blocked_scan if their slices and stacks are larger than caches and
/// something can be hoisted or sunk from their bodies. A scan whose length has no divisor that makes a block is left
/// alone. Rounding may differ. Slots of the graph are kept; idempotent. Requires: the graph is not differentiated
/// again.
Graph block_scans(const Graph& graph, const SimplifyOptions& options = {}, const BlockLimits& limits = {});

}  // namespace diptych::detail
