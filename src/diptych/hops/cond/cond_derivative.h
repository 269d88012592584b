// The derivative of operators that run one of their bodies.
#pragma once
#include "diptych/hops/hop.h"

namespace diptych::detail {

/// Returns the derivative of hop.cond and hop.invoke: its backward is a hop of the same operator, whose bodies are the
/// backward halves of the bodies.
std::unique_ptr<Derivative> branch_derivative(const Hop& hop, const std::vector<bool>& requires_grad,
                                              bool create_graph);

}  // namespace diptych::detail
