// Finds where a graph and the function that it was captured from first differ.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "diptych/graph/graph.h"
#include "diptych/trace/shadow.h"

namespace diptych::detail {

/// Runs `graph` on `inputs` and describes the first node whose value the original function did not compute by the same
/// operator, with both values; or the operator that it called where the graph has none. Returns an empty string if the
/// function computed the value of each node, too. `records` come from the function's run, in order.
std::string first_differing_node(const Graph& graph, std::vector<at::Tensor> inputs,
                                 const std::vector<OperatorRecord>& records, const std::optional<double>& tolerance);

}  // namespace diptych::detail
