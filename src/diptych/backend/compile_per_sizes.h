// Graphs with dynamic sizes for backends whose programs have static ones.
#pragma once
#include <memory>

#include "diptych/backend/backend.h"

namespace diptych::detail {

/// When sizes get an executable of their own, and for how long.
struct SizesPolicy {
  /// Runs any sizes, and does so when a set of them is met for the first time; null where each is compiled at once.
  std::shared_ptr<const Executable> first = nullptr;
  /// How many sets of sizes are remembered; the one that was used longest ago is forgotten. 0: all.
  size_t limit = 0;
};

/// For backends whose graphs the interpreter may run in their place: compiling is left to sizes that come again, and a
/// program that meets other sizes in every call pays for none. `interpreted`: the graph as the interpreter runs it.
SizesPolicy once_sizes_return(std::shared_ptr<const Executable> interpreted);

/// Returns an executable that has `compile` make one of its own for each set of sizes that it is run with, from the
/// graph with these sizes in it, as `policy` says. Threads: sizes that are new are compiled one after the other.
/// Errors: run() throws what `compile` throws, and UserError for sizes that contradict the graph's symbols.
std::shared_ptr<const Executable> compile_per_sizes(const Graph& graph, Compiler compile, SizesPolicy policy = {});

}  // namespace diptych::detail
