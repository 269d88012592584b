// A training step on flat tensors that runs as one XLA program, with its state on the devices.
#pragma once
#include <memory>
#include <vector>

#include "diptych/autodiff/flat_function.h"
#include "diptych/training/step_options.h"
#include "diptych/tree/flatten.h"

namespace torch::optim {
class Optimizer;
}

namespace diptych {
namespace detail {
class ShardedBuffer;
}

namespace xla {

/// A tensor on the devices of a step, which may still be computed. Copies share it. Threads: any.
class DeviceTensor {
 public:
  DeviceTensor() = default;
  DeviceTensor(std::shared_ptr<const detail::ShardedBuffer> buffer, std::vector<int64_t> order)
      : buffer_(std::move(buffer)), order_(std::move(order)) {}

  bool defined() const { return buffer_ != nullptr; }
  /// Whether the values are computed; does not wait.
  bool is_ready() const;
  /// Waits for the values and returns a copy of them on the CPU. Errors: UserError if the step failed.
  at::Tensor tensor() const;
  /// Waits for the value of one element. Errors: as tensor(); UserError for several elements.
  double item() const;

 private:
  std::shared_ptr<const detail::ShardedBuffer> buffer_;
  std::vector<int64_t> order_;  // the dimensions from the slowest to the fastest in the buffer
};

/// What a step returns before it is computed.
struct StepResult {
  DeviceTensor loss;
  std::vector<DeviceTensor> extras;  ///< what the function returns besides the loss, flattened
  DeviceTensor gradient_norm;        ///< before clipping; undefined without StepOptions::max_gradient_norm
};

}  // namespace xla

namespace detail {

/// What is behind xla::Step. Threads: one call at a time, from any.
class DeviceStep {
 public:
  /// Errors: UserError as xla::capture_step().
  DeviceStep(torch::optim::Optimizer& optimizer, xla::StepOptions options);
  ~DeviceStep();
  DeviceStep(const DeviceStep&) = delete;
  DeviceStep& operator=(const DeviceStep&) = delete;

  /// Does a step of `function` on these arguments. Errors: as xla::Step.
  xla::StepResult run(const FlatFunction& function, const Flattened& arguments);
  void sync();
  size_t state_bytes(size_t device) const;
  size_t num_programs() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace detail
}  // namespace diptych
