// A training step on flat tensors that runs as one XLA program, with its state on the devices.
#pragma once
#include <memory>
#include <vector>

#include "diptych/autodiff/flat_function.h"
#include "diptych/training/device_tensor.h"
#include "diptych/training/step_options.h"
#include "diptych/tree/flatten.h"

namespace torch::optim {
class Optimizer;
}

namespace diptych::detail {

/// What is behind xla::Step. Threads: one call at a time, from any.
class DeviceStep {
 public:
  /// Errors: UserError as xla::capture_step().
  DeviceStep(torch::optim::Optimizer& optimizer, xla::DeviceStepOptions options);
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

}  // namespace diptych::detail
