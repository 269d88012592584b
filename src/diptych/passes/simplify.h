// The passes that tidy any graph, in the order in which each leaves the next one most to do.
#pragma once
#include "diptych/passes/fold_constants.h"

namespace diptych {

struct SimplifyOptions {
  /// The graph may be differentiated again by whoever gets it, so that detach and no_grad regions must stay visible.
  bool keep_gradient_stops = false;
  /// Otherwise whoever captures the graph again takes a folded constant for a free variable; and one that is folded
  /// while another function is traced is a stand-in of that trace.
  bool fold_constants = true;
};

/// Returns `graph` without needless views and copies, values computed twice, constants that can be folded, and nodes
/// that nothing reads. Slots are kept. Errors: what `evaluator` throws.
Graph simplify(Graph graph, const Evaluator& evaluator, const SimplifyOptions& options = {});

}  // namespace diptych
