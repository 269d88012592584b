// The passes that tidy any graph, in the order in which each leaves the next one most to do.
#pragma once
#include "diptych/passes/fold_constants.h"

namespace diptych::detail {

struct SimplifyOptions {
  /// Whether the receiver of the graph may differentiate it again, so that detach and no_grad regions must stay
  /// visible.
  bool keep_gradient_stops = false;
  /// Whether constants are folded; a graph that is to be unified with graphs of other sizes must not hold constants
  /// that depend on sizes.
  bool fold_constants = true;
};

/// Returns `graph` without needless views and copies, values computed twice, constants that can be folded, and nodes
/// that nothing reads. Without an evaluator nothing is folded. Slots are kept. Errors: what `evaluator` throws.
Graph simplify(Graph graph, const Evaluator& evaluator, const SimplifyOptions& options = {});

}  // namespace diptych::detail
