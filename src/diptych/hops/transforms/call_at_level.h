// Calls of hops inside of transforms: see Note [Transformed hops].
#pragma once
#include "diptych/hops/hop.h"

namespace diptych::detail {

/// Calls a hop inside of the innermost level. Requires: levels_are_active().
/// Errors: UserError for a level that hops have no rules for.
std::vector<at::Tensor> call_at_level(const HopPtr& hop, std::vector<at::Tensor>&& operands);

/// Calls a hop below the innermost level, which is one of grad, and does not record it there.
std::vector<at::Tensor> call_below_grad(const Hop& hop, const std::vector<at::Tensor>& operands);

/// Whether a call on these operands is recorded, or transformed: then only its rules say what it is, and a hop that has
/// another way to run under autograd can't take it.
bool needs_rules(const std::vector<at::Tensor>& operands);

/// Whether forward-mode tangents of these tensors have to be computed.
bool any_tangent(const std::vector<at::Tensor>& operands);
/// Calls a hop on tensors of which some have tangents. Requires: no level is active.
std::vector<at::Tensor> call_on_duals(const HopPtr& hop, std::vector<at::Tensor>&& operands);

}  // namespace diptych::detail
