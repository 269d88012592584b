// How the gradient of a loop is computed step by step, for backends that cannot run it under autograd.
#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "diptych/graph/graph.h"
#include "diptych/ops/gradient_source.h"

namespace diptych::detail {

/// The halves of the step of a hop.while_loop. `forward` takes the step's inputs and returns the next carries, then
/// residuals. `backward` takes the gradients of some carries and the sums of those of some free operands, residuals,
/// and free operands; it returns the gradients in front of the step, and the sums.
struct LoopGradient {
  std::shared_ptr<const Graph> forward, backward;
  std::vector<size_t> carries;  ///< those that have a gradient
  std::vector<size_t> sums;     ///< free operands of the step that have one
  std::vector<GradientSource> slices, free;
};

/// Returns the halves for a node of hop.vjp whose body is one hop.while_loop, by its inputs and results; nullopt for
/// any other node, and for a step that draws or cannot be differentiated as a graph. Threads: any.
std::optional<LoopGradient> loop_gradient(const Node& vjp);

/// Sets what finds it; hops/ does, before it makes such a node.
void set_loop_gradient(std::optional<LoopGradient> (*find)(const Node& vjp));

}  // namespace diptych::detail
