// Passes that need static sizes, for graphs with dynamic ones.
#pragma once
#include <functional>
#include <optional>
#include <string>

#include "diptych/graph/graph.h"

namespace diptych::detail {

/// Returns what `pass` makes of a graph at all sizes: it is run at several, the hints first, and its results become one
/// graph, see unify_sizes(). Symbols may get other names. None if the results differ in more than sizes, or the graph
/// has too many symbols, or rounded sizes, which a few points do not tell; `why` then says so. Requires: a pass that
/// does the same at all sizes, as far as it can tell.
std::optional<Graph> at_all_sizes(const Graph& graph, const std::function<Graph(const Graph&)>& pass, std::string& why);

}  // namespace diptych::detail
