// Makes the block of a graph.
#pragma once
#include <string>
#include <vector>

#include "diptych/graph/graph.h"
#include "diptych/native/plan/block.h"

namespace diptych::detail {

/// Thrown, and caught in this room, where a graph has no plan.
struct Unplannable {
  std::string why;
};

/// A value that a block writes to an output, laid out as `meta` says.
struct BlockResult {
  Value value;
  TensorMeta meta;
};

/// Returns the block that computes `results`. Its steps: kernels for hop.fused nodes, the library for matrix products,
/// loops and branches as blocks of their own, and the interpreter for other nodes whose results are small; views are
/// places. Values lie in outputs where they can, and else share memory by their lifetimes. `windows` gets the places of
/// the workspace's windows.
/// Errors: Unplannable for dynamic sizes, other devices, nodes with effects, undefined values, views that reinterpret
/// elements, kernels without code.
Block make_block(const Graph& graph, const std::vector<BlockResult>& results, std::vector<Place>& windows);

}  // namespace diptych::detail
