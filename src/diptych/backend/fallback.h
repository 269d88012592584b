// A backend that takes only some nodes still compiles every graph: what it does not take, the interpreter runs.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "diptych/backend/backend.h"

namespace diptych::detail {

/// A node that the interpreter runs in place of a backend.
struct FallbackNode {
  size_t index = 0;  ///< in the graph that the backend prepared
  std::string text;  ///< "%7 : f32[2,3] = aten.mm(%5, %6)  # block0"
};

/// Compiles `graph`, prepared by `backend`, with that backend where it supports the nodes, and with the interpreter
/// where it does not. Nodes keep their order; each run of neighbouring nodes of one kind becomes a graph of its own,
/// whose inputs are freed at their last use. A graph that is supported throughout is compiled as it is. What fell back
/// is logged (DIPTYCH_LOG=graphs) and kept for fallback_nodes(). Errors: UserError names a node that neither runs, or a
/// part for which the backend returned no executable.
std::shared_ptr<const Executable> compile_with_fallback(const Backend& backend, const Graph& graph);

/// Returns the nodes that the interpreter runs in an executable that compile_with_fallback made; empty for any other.
std::vector<FallbackNode> fallback_nodes(const Executable& executable);

}  // namespace diptych::detail
