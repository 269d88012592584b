// A captured step, compiled.
#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "diptych/interpreter/program.h"
#include "diptych/training/device_tensors.h"
#include "diptych/training/step_graph.h"
#include "diptych/xla/pjrt/sharded_program.h"

namespace diptych::detail {

/// A step's graph as an XLA program that takes the memory of what it changes.
class StepProgram {
 public:
  using Buffer = std::shared_ptr<ShardedBuffer>;
  /// Returns the buffer of an input of the step, which `port` can send.
  using Source = std::function<Buffer(const StepInput& input, const DevicePort& port)>;

  /// Errors: UserError names nodes that XLA can't take, and what lower_graph() and the plugin refuse.
  StepProgram(StepGraph step, const xla::DeviceStepOptions& options, std::shared_ptr<const PjrtClient> client);

  /// Runs the step: one buffer for each output of the step's graph, in order.
  std::vector<Buffer> run(const Source& source) const;
  const StepGraph& step() const { return step_; }
  /// The dimensions of an output from the slowest to the fastest in its buffer.
  const std::vector<int64_t>& order_of(size_t output) const { return module_.outputs[output].order; }

 private:
  void take_out_draws();
  Buffer send(const at::Tensor& tensor, const HloSlot& slot) const;

  StepGraph step_;
  xla::Mesh mesh_;
  std::shared_ptr<const PjrtClient> client_;
  HloModule module_;
  std::unique_ptr<const ShardedProgram> program_;
  std::vector<Buffer> constants_;
  std::unique_ptr<const Program> draws_;  // null if there are none
};

}  // namespace diptych::detail
