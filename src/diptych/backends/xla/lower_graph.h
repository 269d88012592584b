// A whole graph as one StableHLO module.
#pragma once
#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "diptych/graph/graph.h"

namespace diptych::detail {

/// What `main` of a module takes and returns.
enum class HloForm : uint8_t {
  /// Takes the inputs that are read, then the constants that are read, and returns the outputs that nodes make. Tensors
  /// pass in the order of their memory, without gaps: for callers that hand over memory as it lies.
  kInMemory,
  /// Takes every input, then every constant, and returns every output that is defined, with the graph's own sizes: for
  /// other programs, which know the slots alone. A mutated input may give its memory to its new value.
  kComplete,
};

/// One parameter or result of a module.
struct HloSlot {
  size_t index = 0;  ///< which input, constant or output of the graph
  at::ScalarType dtype = at::kFloat;
  std::vector<int64_t> sizes;  ///< of the tensor in the graph
  std::vector<int64_t> order;  ///< its dimensions as they pass: slowest first in memory, or 0, 1, 2...
  std::vector<int64_t> strides;
};

/// A module with one public function, `main`; its parameters are `inputs`, then `constants`.
struct HloModule {
  std::string text;
  std::vector<HloSlot> inputs, constants, outputs;
};

/// Lowers a graph. Requires: every node has a lowering, and no size is dynamic.
/// Errors: UserError for a dtype that StableHLO does not have.
HloModule lower_graph(const Graph& graph, HloForm form = HloForm::kInMemory);

}  // namespace diptych::detail
