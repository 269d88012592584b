// Replaces values that can be computed from constants alone by constants.
//
//   graph f(%0 x : f32[2])
//     %1 : f32[2] = aten.ones([2])
//     %2 : f32[2] = aten.neg(%1)
//     %3 : f32[2] = aten.add.Tensor(%0, %2)
//     return (%3 y)
// ==>
//   graph f(%0 x : f32[2])
//     %1 : f32[2] = constant 0
//     %2 : f32[2] = aten.add.Tensor(%0, %1)
//     return (%2 y)
#pragma once
#include <ATen/core/Tensor.h>

#include <functional>

#include "diptych/graph/graph.h"

namespace diptych::detail {

/// Runs a graph without inputs and returns its outputs. Passes run no kernels, so the caller passes an interpreter.
using Evaluator = std::function<std::vector<at::Tensor>(const Graph&)>;

struct FoldConstantsOptions {
  /// A constant lives as long as its graph; a larger result is computed each time instead. Units: bytes.
  int64_t max_bytes = 1 << 16;
};

/// Returns `graph` with every node folded whose tensor operands are constants or folded themselves, whose results are
/// small enough, on the CPU, and keep their storage inside the graph, and which has no effect. A constant that leaves
/// the graph would be one tensor for all callers, so outputs are computed at each call.
/// Requires: a graph that verifies. Ensures: slots are kept; idempotent.
/// Errors: what `evaluator` throws; InternalError if it returns the wrong number of tensors.
Graph fold_constants(const Graph& graph, const Evaluator& evaluator, const FoldConstantsOptions& options = {});

}  // namespace diptych::detail
