// A program that a PJRT plugin has compiled.
#pragma once
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "diptych/xla/pjrt/pjrt_buffer.h"

namespace diptych::detail {

struct PjrtProgramOptions {
  /// Numbers of the arguments whose memory the program may take for its results, as the attribute
  /// `tf.aliasing_output` or `jax.buffer_donor` of the module's arguments says.
  std::vector<size_t> donated;
  /// The devices of the client that the program runs on, by index: one for each partition.
  std::vector<size_t> devices = {0};
};

/// A program that a plugin has compiled.
class PjrtProgram {
 public:
  using Buffers = std::vector<std::shared_ptr<PjrtBuffer>>;

  /// Compiles a StableHLO module whose function `main` takes and returns tensors, or reads it from the cache of an
  /// earlier process (program_cache.h).
  /// Errors: UserError holds the plugin's text, with the name of the node that it refuses.
  PjrtProgram(std::shared_ptr<const PjrtClient> client, std::string_view module, PjrtProgramOptions options = {});

  /// Runs the program on its one device and returns its results, which may still be computed. Donated inputs can't be
  /// used afterwards, whether or not their memory could be reused; those whose numbers are in `kept` are not donated in
  /// this run. Threads: any number at once.
  /// Errors: UserError holds the plugin's text, or the number of an input that has been donated before. An input that
  /// is donated is lost if the run fails.
  Buffers run(const Buffers& inputs, std::span<const size_t> kept = {}) const;
  /// The same on all of the program's devices: a list of inputs for each, which lie there, and a list of results.
  std::vector<Buffers> run(std::span<const Buffers> inputs, std::span<const size_t> kept = {}) const;

 private:
  std::vector<std::vector<PJRT_Buffer*>> execute(std::span<const Buffers> inputs, std::span<const int64_t> held) const;

  std::shared_ptr<const PjrtClient> client_;
  PjrtProgramOptions options_;
  PjrtLoadedExecutableHandle executable_;
  size_t num_outputs_ = 0;
};

}  // namespace diptych::detail
