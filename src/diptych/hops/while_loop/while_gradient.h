// The gradient of a while_loop step by step, for hop.vjp in a program.
#pragma once
#include "diptych/ops/loop_gradient.h"

namespace diptych::detail {

/// Returns what loop_gradient() promises.
std::optional<LoopGradient> gradient_of_while_loop(const Node& vjp);

}  // namespace diptych::detail
