// A whole graph as one StableHLO module.
#pragma once
#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "diptych/graph/graph.h"

namespace diptych::detail {

/// One parameter or result of a module. Tensors pass in the order of their memory, without gaps.
struct HloSlot {
  size_t index = 0;  ///< which input, constant or output of the graph
  at::ScalarType dtype = at::kFloat;
  std::vector<int64_t> sizes;  ///< of the tensor in the graph
  std::vector<int64_t> order;  ///< its dimensions from the slowest to the fastest in memory
  std::vector<int64_t> strides;
  std::vector<int64_t>
      passed;  ///< the sizes in which it passes: in the order of memory, perhaps after a dimension of one
};

/// A module whose function `main` takes the inputs of a graph that are read, then its constants that are read, and
/// returns the outputs that nodes make.
struct HloModule {
  std::string text;
  std::vector<HloSlot> inputs, constants, outputs;
};

/// Lowers a graph. Requires: every node has a lowering, and no size is dynamic.
/// Errors: UserError for a dtype that StableHLO does not have.
HloModule lower_graph(const Graph& graph);

}  // namespace diptych::detail
