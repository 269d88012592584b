// A graph again, with other sizes.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "diptych/graph/graph.h"

namespace diptych {

/// What takes the place of everything in a graph that may speak of sizes. Nodes and operands go by position.
struct SizeMapping {
  std::function<TensorMeta(Value value)> meta;
  std::function<Operand(size_t node, size_t operand)> operand;
  std::function<std::shared_ptr<const Graph>(size_t node, size_t subgraph)> subgraph;
};

/// The same nodes, slots and constants with sizes as `mapping` says. Values may have other numbers.
Graph map_sizes(const Graph& graph, const SizeMapping& mapping);

/// The graph for these values of its symbols; nothing in it, or in its subgraphs, is dynamic any more.
/// Errors: as SizeExpr::evaluate.
Graph instantiate(const Graph& graph, const std::map<std::string, int64_t>& symbols);
/// The same for what a node owns.
Node instantiate(const Node& node, const std::map<std::string, int64_t>& symbols);

/// The symbol of a size that only the kernel that makes the value knows, as that of a workspace: it follows from no
/// other, and no operand depends on it.
std::string unknown_size_name(Value value);

/// Whether `graph`, for these values of its symbols, is `traced` but for where nodes come from and the names of slots.
bool is_instance(const Graph& graph, const std::map<std::string, int64_t>& symbols, const Graph& traced);

/// Whether the operands or subgraphs of a node have a size that is dynamic.
bool has_dynamic_sizes(const Node& node);
bool has_dynamic_sizes(const Graph& graph);

}  // namespace diptych
