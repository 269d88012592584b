// Watches that a traced function leaves random generators alone: a graph draws from them when it runs, and has no node
// that seeds one.
#pragma once
#include <cstdint>

#include "diptych/graph/graph.h"

namespace diptych::detail {

/// While it lives the CPU's default generator carries a mark in the place of its seed. Whatever seeds it, or gives it
/// another state, removes the mark; draws, also of other threads, go on as before.
class GeneratorWatch {
 public:
  GeneratorWatch();
  ~GeneratorWatch();
  GeneratorWatch(const GeneratorWatch&) = delete;
  GeneratorWatch& operator=(const GeneratorWatch&) = delete;

  /// Errors: UserError if the default generator was seeded or given a state, and if a node of `graph` draws from a
  /// generator that nothing but the graph holds, so that the function has made it.
  void check(const Graph& graph) const;

 private:
  uint64_t seed_;
};

}  // namespace diptych::detail
