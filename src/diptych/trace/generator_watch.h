// Watches that a traced function leaves random generators alone: a graph draws from them when it runs, and has no node
// that seeds one.
#pragma once
#include <ATen/core/Generator.h>

#include "diptych/graph/graph.h"

namespace diptych::detail {

/// While one lives the CPU's default generator carries a mark in the place of its seed, another one for each watch and
/// from each recorded draw on. Whatever seeds it, or gives it a state from before a draw, removes the mark; draws, also
/// of other threads, go on as before.
class GeneratorWatch {
 public:
  GeneratorWatch();
  ~GeneratorWatch();
  GeneratorWatch(const GeneratorWatch&) = delete;
  GeneratorWatch& operator=(const GeneratorWatch&) = delete;

  /// Errors: UserError if the default generator was seeded or given a state, and if a node of `graph` draws from a
  /// generator that nothing but the graph holds, so that the function has made it.
  static void check(const Graph& graph);
  /// Where a watch of this thread is open, the same of a draw that is about to be recorded: a function may seed the
  /// generator, draw, and put the generator back as it was.
  static void check_draw();
  /// The same of the time since then. Requires: a watch of this thread is open.
  static void check_untouched();
};

/// Gives a generator a state, and is no seeding to the watches of any thread: the seed that it reports stays. Takes the
/// generator's lock.
void set_state_unseen(at::Generator& generator, const at::Tensor& state);

}  // namespace diptych::detail
