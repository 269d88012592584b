// Decompositions: composite kernels written out as arithmetic that a backend with few operators can run.
#pragma once
#include <string_view>
#include <vector>

#include "diptych/ops/emitter.h"

namespace diptych::detail {

/// Emits the nodes that replace a node and returns its results, one per output of the node (none for an output that is
/// undefined or not asked for). An empty list means that the node is not replaced.
using DecompositionRule = std::vector<Value> (*)(const Call&);

/// One row of a table of decompositions.
struct Decomposition {
  std::string_view op;  ///< "aten.silu_backward"
  /// "activation", "dropout", "linear", "loss", "normalization", "pointwise", "random", "softmax"
  std::string_view family;
  DecompositionRule rule;
};

/// Returns the row of `op`, or null. Threads: any.
const Decomposition* find_decomposition(const Op& op);

/// Every row, by family.
const std::vector<Decomposition>& all_decompositions();

// The tables of the families, each in its own file.
std::vector<Decomposition> activation_decompositions();
std::vector<Decomposition> activation_backward_decompositions();
std::vector<Decomposition> linear_decompositions();
std::vector<Decomposition> loss_decompositions();
std::vector<Decomposition> normalization_decompositions();
std::vector<Decomposition> random_decompositions();
std::vector<Decomposition> softmax_decompositions();

}  // namespace diptych::detail
