// Pieces of the text of a graph, for messages that show a part of one.
#pragma once
#include <map>
#include <string>

#include "diptych/graph/graph.h"

namespace diptych::detail {

/// What Graph::code() returns.
std::string print(const Graph& graph);

/// One node as a line of code() without indentation; subgraphs print as `{ ... }`. Works on graphs that do not verify.
std::string node_line(const Graph& graph, const Node& node);

/// The nodes around `index` with their numbers, that node marked; for error messages.
std::string nodes_around(const Graph& graph, size_t index, size_t radius = 3);

/// A node's checkpoint regions with their marks as code() prints them: "region checkpoint.0 recompute".
std::string region_text(const Provenance& provenance);

/// The symbols of the graph's sizes (those of subgraphs not included) with the values that they had when traced.
std::map<std::string, int64_t> size_symbols(const Graph& graph);

}  // namespace diptych::detail
