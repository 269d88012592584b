// Graphs with dynamic sizes for backends whose programs have static ones.
#pragma once
#include <memory>

#include "diptych/backends/backend.h"

namespace diptych::detail {

/// Returns an executable that has `compile` make one of its own for each set of sizes that it is run with, from the
/// graph with these sizes in it. They are kept as long as the executable. Threads: sizes that are new are compiled one
/// after the other.
/// Errors: run() throws what `compile` throws, and UserError for sizes that contradict the graph's symbols.
std::shared_ptr<const Executable> compile_per_sizes(const Graph& graph, Compiler compile);

}  // namespace diptych::detail
