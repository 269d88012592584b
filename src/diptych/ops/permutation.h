// Operators that return their operand with its dimensions in another order.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "diptych/graph/graph.h"

namespace diptych::detail {

/// Returns the dimensions of the operand, of `rank` dimensions, in the order in which the node has them; nothing for
/// nodes that do something else.
std::optional<std::vector<int64_t>> permutation_of(const Node& node, int64_t rank);

}  // namespace diptych::detail
