// Checks that a traced function does not seed random generators: a graph draws from them when it runs, and has no node
// that seeds one.
#pragma once
#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include "diptych/graph/graph.h"

namespace diptych::detail {

/// While it lives, the CPU's default generator carries a mark in the place of its seed. Each watch and each recorded
/// draw sets a new mark. Seeding the generator, or setting a state from before a draw, removes the mark. Draws, also
/// those of other threads, do not change.
class GeneratorWatch {
 public:
  GeneratorWatch();
  ~GeneratorWatch();
  GeneratorWatch(const GeneratorWatch&) = delete;
  GeneratorWatch& operator=(const GeneratorWatch&) = delete;

  /// Errors: UserError if the default generator was seeded or its state was set, or if a node of `graph` draws from a
  /// generator that only the graph holds, which means that the function made it.
  static void check(const Graph& graph);
  /// Checks the default generator before a draw is recorded, if a watch of this thread is open: a function may seed the
  /// generator, draw, and restore the generator's state.
  static void check_draw();
  /// Checks the default generator since the last check. Requires: a watch of this thread is open.
  static void check_untouched();
};

/// Sets the state of a generator without any watch noticing: the seed that it reports does not change. Takes the
/// generator's lock.
void set_state_unseen(at::Generator& generator, const at::Tensor& state);

/// Leaves the CPU's default generator as it was, and no watch notices.
class KeepDefaultGenerator {
 public:
  KeepDefaultGenerator();
  ~KeepDefaultGenerator();
  KeepDefaultGenerator(const KeepDefaultGenerator&) = delete;
  KeepDefaultGenerator& operator=(const KeepDefaultGenerator&) = delete;
  /// Whether the generator is in another state than it was.
  bool has_drawn() const;

 private:
  at::Tensor state_;
};

}  // namespace diptych::detail
