// Taking the drawing of random numbers out of a body.
#pragma once
#include <memory>

#include "diptych/graph/graph.h"

namespace diptych::detail {

/// A body in two: see Note [Lifted draws].
struct SplitDraws {
  std::shared_ptr<const Graph> draws;  ///< inputs as the body's; outputs: the carries, then what is drawn
  std::shared_ptr<const Graph> rest;   ///< the drawn numbers are inputs from `position` on; outputs as the body's
  size_t num_draws = 0;
};

/// Splits `body`, whose first `num_carries` inputs and outputs are carries. `draws` computes only what some draw
/// depends on; its other carries come out as they went in.
/// Errors: UserError names an operator that both draws and computes, where a gradient would have to flow through it.
SplitDraws split_draws(const Graph& body, size_t num_carries, size_t position);

}  // namespace diptych::detail
