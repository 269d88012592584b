// The derivative of a checkpointed scan.
#pragma once
#include "diptych/hops/hop.h"

namespace diptych::detail {

/// Returns the derivative, whose backward is hop.reverse_segments; with `create_graph`, the derivative of the plain
/// scan that the checkpointed one amounts to.
std::unique_ptr<Derivative> checkpointed_scan_derivative(const Hop& hop, const std::vector<bool>& requires_grad,
                                                         bool create_graph);

}  // namespace diptych::detail
