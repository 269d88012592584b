// Which values of a graph share storage. Views follow their base; so does _unsafe_view.
#pragma once
#include <vector>

#include "diptych/graph/graph.h"

namespace diptych::detail {

/// The value whose storage each value of `graph` shares, indexed by value: the base of its chain of views, or itself.
std::vector<Value> storage_roots(const Graph& graph);

/// Whether each value is the base of a storage that leaves the graph through an output, indexed by value. The caller
/// may write to what it holds, so such a storage must belong to the caller alone.
std::vector<bool> escaping_storages(const Graph& graph, const std::vector<Value>& roots);

/// Whether a node of `graph` writes to an operand. Passes that move or merge reads leave such graphs as they are.
bool has_mutation(const Graph& graph);

}  // namespace diptych::detail
