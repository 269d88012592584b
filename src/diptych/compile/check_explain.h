// Where a graph and the function that it stands for part.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "diptych/graph/graph.h"
#include "diptych/trace/shadow.h"

namespace diptych::detail {

/// Runs `graph` on `inputs`, and says which is the first node whose value the original function has not computed by
/// the same operator, with both values; or which operator it called where the graph has none. Empty if each node's
/// value is one that the function computed, too. `records` are of the function's run, in order.
std::string first_differing_node(const Graph& graph, std::vector<at::Tensor> inputs,
                                 const std::vector<OperatorRecord>& records, const std::optional<double>& tolerance);

}  // namespace diptych::detail
