// A training step on flat tensors that runs as one XLA program, with its state on the devices.
#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "diptych/autodiff/flat_function.h"
#include "diptych/compile/capture_watch.h"
#include "diptych/training/device_tensor.h"
#include "diptych/training/step_options.h"
#include "diptych/tree/flatten.h"

namespace torch::optim {
class Optimizer;
}

namespace diptych::detail {

class OptimizerView;

/// A function as steps capture it.
struct StepFunction {
  FlatFunction flat;
  /// Begins to watch a capture; empty, or null, for a function that nobody watches.
  std::function<std::unique_ptr<CaptureWatch>()> watch = {};
  /// Called after a capture: returns what the function returned, without tensors.
  std::function<std::shared_ptr<const void>()> example = {};
};

/// What is behind xla::Step. Threads: one call at a time, from any.
class DeviceStep {
 public:
  /// Errors: UserError as xla::capture_step().
  DeviceStep(torch::optim::Optimizer& optimizer, xla::DeviceStepOptions options);
  DeviceStep(std::shared_ptr<const OptimizerView> optimizer, xla::DeviceStepOptions options);
  ~DeviceStep();
  DeviceStep(const DeviceStep&) = delete;
  DeviceStep& operator=(const DeviceStep&) = delete;

  struct Result {
    xla::StepResult tensors;
    std::shared_ptr<const void> example;  ///< of the capture that served
  };
  /// Does a step of `function` on these arguments. Errors: as xla::Step; UserError for what a watch finds.
  Result run(const StepFunction& function, const Flattened& arguments);
  void sync();
  size_t state_bytes(size_t device) const;
  size_t num_programs() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace diptych::detail
