// dp::xla::capture_step: a training step as one XLA program whose parameters stay on the device.
#pragma once
#include <memory>
#include <utility>
#include <vector>

#include "diptych/compile/arguments.h"
#include "diptych/training/device_step.h"

namespace diptych::xla {

/// What capture_step returns. Copies share everything. Threads: one call at a time, from any.
template <class F>
class Step {
 public:
  Step(torch::optim::Optimizer& optimizer, F function, DeviceStepOptions options)
      : state_(std::make_shared<State>(State{std::move(function), options.argument_names,
                                             std::make_shared<detail::DeviceStep>(optimizer, options)})) {}

  /// Does one step: forward, backward, clipping, update. Returns as soon as the program has begun; the next call hands
  /// over its arguments meanwhile. Arguments may be changed or freed when it returns.
  /// Errors: UserError for what a graph or the program can't hold, named; a parameter that the host has changed since
  /// the last step without a sync(). Until the program begins, nothing has changed.
  template <class... A>
  StepResult operator()(A&&... arguments) const {
    using Result = std::decay_t<decltype(std::declval<F&>()(std::declval<std::remove_cvref_t<A>&>()...))>;
    const Flattened flat = detail::flatten_arguments(state_->argument_names, arguments...);
    std::shared_ptr<Result> example;
    return state_->core->run({detail::make_flat<Result>(state_->function, example, arguments...)}, flat).tensors;
  }

  /// Copies parameters, buffers and the optimizer's state to the host, where a checkpoint, another backend or the
  /// caller finds them. Waits for the steps that have begun. Errors: UserError if one of them failed.
  void sync() const { state_->core->sync(); }

  /// The bytes of parameters, buffers and optimizer's state on one device. Requires: a device of the mesh.
  size_t state_bytes(size_t device = 0) const { return state_->core->state_bytes(device); }
  /// How many programs were compiled: one for each structure, dtype and size of the arguments.
  size_t num_programs() const { return state_->core->num_programs(); }

 private:
  struct State {
    F function;
    std::vector<std::string> argument_names;
    std::shared_ptr<detail::DeviceStep> core;
  };
  std::shared_ptr<State> state_;
};

/// Makes a step function of a torch::optim::SGD, Adam or AdamW. `function` takes any trees of tensors and constants and
/// returns the loss, or a std::pair of the loss and of what else it computed. Forward, backward, clipping and update
/// are one XLA program on the devices of a PJRT plugin. Parameters (the tensors of the optimizer), what the function
/// writes to (BatchNorm's statistics) and the optimizer's state are sent there once and stay: on the host they keep the
/// values of the last sync(), until which the optimizer has no state for a step that it did not do itself. Learning
/// rates are read in each step; other options are parts of the program. When the last copy of the step is destroyed, it
/// syncs. Differences from eager: gradients are not kept, hooks on parameters are not called, random numbers are drawn
/// before the program begins, unless DeviceStepOptions::draws says otherwise; before a sync(), what is written past a
/// tensor's version is not seen. A function is captured once for each structure, dtype and size of its arguments.
///
///   const auto step = dp::xla::capture_step(optimizer, gpt_loss, {.max_gradient_norm = 1.0});
///   for (const Batch& batch : batches) losses.push_back(step(model, batch).loss);
///   step.sync();
///
/// Requires: `optimizer` outlives the step.
/// Errors: UserError for another optimizer, a norm or bound that is not positive, a mesh that has no sizes, draws that
/// are neither "host" nor "device".
template <class F>
Step<std::decay_t<F>> capture_step(torch::optim::Optimizer& optimizer, F&& function, DeviceStepOptions options = {}) {
  return Step<std::decay_t<F>>(optimizer, std::forward<F>(function), std::move(options));
}

}  // namespace diptych::xla
