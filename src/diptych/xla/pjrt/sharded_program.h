// A program that XLA's partitioner has split over the devices of a mesh.
#pragma once
#include <memory>
#include <span>
#include <vector>

#include "diptych/xla/hlo/lower_graph.h"
#include "diptych/xla/pjrt/pjrt_program.h"
#include "diptych/xla/pjrt/sharded_buffer.h"

namespace diptych::detail {

/// A module of a graph, which was lowered with a mesh, as one program for each device; XLA finds out what each computes
/// and what they exchange.
class ShardedProgram {
 public:
  using Buffers = std::vector<std::shared_ptr<ShardedBuffer>>;

  /// Compiles the module. Requires: `module` is of lower_graph() with `mesh`.
  /// Errors: UserError if the client lacks devices, or holds the plugin's text.
  ShardedProgram(std::shared_ptr<const PjrtClient> client, const HloModule& module, xla::Mesh mesh);

  /// Runs on all devices and returns the results, which may still be computed: for each of the module's parameters
  /// (inputs, then constants) a buffer in, for each of its outputs one out. Donation is that of PjrtProgram::run().
  /// Threads: any number at once.
  /// Errors: UserError for another number of inputs, an input whose sharding is not the module's, and as
  /// PjrtProgram::run().
  Buffers run(const Buffers& inputs, std::span<const size_t> kept = {}) const;

 private:
  xla::Mesh mesh_;
  std::vector<xla::Sharding> inputs_, outputs_;
  PjrtProgram program_;
};

}  // namespace diptych::detail
