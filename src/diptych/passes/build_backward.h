// The backward half of a split joint graph.
#pragma once
#include <vector>

#include "diptych/passes/joint_analysis.h"

namespace diptych::detail {

/// Builds the graph (residuals, tangents) -> gradients from the `saved` values, sorted by number. Nodes that depend on
/// tangents keep their order, and recomputed ones come just before their first use. A value that several readers need
/// is recomputed once, except in nested checkpoint regions: see Note [Checkpoint regions].
/// Errors: UserError if a gradient can't be computed because an input, or a value that must not be made twice, is not
/// saved.
Graph build_backward(const JointAnalysis& analysis, const std::vector<Value>& saved);

/// The slots "residual.0", "residual.1" and so on.
std::vector<Slot> residual_slots(size_t count);

template <class T>
std::vector<T> slice(const std::vector<T>& all, size_t begin, size_t end) {
  return {all.begin() + static_cast<std::ptrdiff_t>(begin), all.begin() + static_cast<std::ptrdiff_t>(end)};
}

}  // namespace diptych::detail
