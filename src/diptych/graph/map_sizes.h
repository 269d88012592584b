// Copies of a graph with other sizes.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "diptych/graph/graph.h"

namespace diptych::detail {

/// Returns the replacement for everything in a graph that may depend on sizes. Nodes, operands and subgraphs are named
/// by their positions.
struct SizeMapping {
  std::function<TensorMeta(Value value)> meta;
  std::function<Operand(size_t node, size_t operand)> operand;
  std::function<std::shared_ptr<const Graph>(size_t node, size_t subgraph)> subgraph;
};

/// Returns a graph with the same nodes, slots and constants, and with the sizes that `mapping` returns. Values may have
/// other numbers.
Graph map_sizes(const Graph& graph, const SizeMapping& mapping);

/// Returns the graph for these values of its symbols; nothing in it, or in its subgraphs, is dynamic.
/// Errors: as SizeExpr::evaluate.
Graph instantiate(const Graph& graph, const std::map<std::string, int64_t>& symbols);
/// Does the same for the operands and subgraphs of one node.
Node instantiate(const Node& node, const std::map<std::string, int64_t>& symbols);

/// The symbol for a size of `value` that only the kernel knows, such as that of a workspace: it follows from no other
/// size, and no operand depends on it.
std::string unknown_size_name(Value value);

/// Whether `graph`, for these values of its symbols, is the same as `traced` by same_but_origins().
bool is_instance(const Graph& graph, const std::map<std::string, int64_t>& symbols, const Graph& traced);

/// Whether the operands or subgraphs of a node have a size that is dynamic.
bool has_dynamic_sizes(const Node& node);
bool has_dynamic_sizes(const Graph& graph);

}  // namespace diptych::detail
