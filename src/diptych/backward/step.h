// A training step's backward, clipping and update as one graph.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "diptych/backends/builtin_backends.h"
#include "diptych/backward/gradient_transform.h"
#include "diptych/native/native_graph.h"

namespace torch::optim {
class Optimizer;
}

namespace diptych {

struct StepOptions {
  /// Scales all gradients down so that the norm of all of them together is at most this; infinity only measures it.
  std::optional<double> max_gradient_norm = {};
  /// The p of the p-norm; infinity takes the largest absolute value.
  double norm_type = 2;
  /// Leaves the gradients (reduced, clipped) in the parameters' grad().
  bool keep_gradients = false;
  /// Applied to the gradients before they are clipped; null for none.
  std::shared_ptr<GradientTransform> transform = nullptr;
  /// Which built-in backend computes gradients and clips them: see backend_names(). The update is in place, and stays
  /// with the fused kernels.
  std::string backend = default_backend();
};

/// What capture_step returns. Copies share everything. Threads: one call at a time, from any.
class TrainingStep {
 public:
  explicit TrainingStep(torch::optim::Optimizer& optimizer, const StepOptions& options = {});

  /// Does what `optimizer.zero_grad(); loss.backward(); clip_grad_norm_(parameters, max_gradient_norm);
  /// optimizer.step();` does, and returns the norm of the gradients before they were clipped, where that was asked for.
  /// Errors: the engine's; what hooks throw; UserError for parameters and hooks that a step can't hold, named. Until
  /// the update begins, which is the graph's last node, parameters and state are as they were.
  std::optional<double> operator()(const at::Tensor& loss) const;
  /// What backend "native" made of the graphs of the steps, the most recent first, as far as they are still cached: see
  /// BackwardCapture::native_graphs(). They compute the gradients; the update is LibTorch's.
  std::vector<NativeGraph> native_graphs() const;

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

/// Makes a step function of a torch::optim::SGD, Adam or AdamW: a call runs the backward of a loss, the clipping of its
/// gradients and the optimizer's update as one captured graph, where the update is in place and goes through memory
/// once. With a forward by aot_function, a training step is two graphs. The first call captures; see BackwardCapture
/// for how later ones are told apart, and backward_capture::statistics() for why one was captured again.
///
/// The optimizer keeps owning its options and its state. Options are read in each step: a learning rate that a
/// scheduler changes is an input of the graph; other options are parts of the graph, so changing one causes a capture.
/// State is what the optimizer's own step() would leave, so the two can be mixed, and torch::save and torch::load still
/// work.
///
/// Differences from eager: gradients are not accumulated, and the parameters' grad() is undefined after a step (but see
/// StepOptions::keep_gradients); callbacks queued for the end of the backward run after the update; the update counts
/// as a change of the parameters for SGD as well, so that a later backward that needs their old values is refused and
/// not wrong. Leaves that are not parameters of the optimizer have their gradients accumulated as usual. A backward
/// that can't be captured (anomaly mode) runs in eager; clipping and update follow, with the same kernels.
///
/// Requires: `optimizer` outlives the step function.
/// Errors: UserError for another optimizer, a norm or bound that is not positive, an unknown backend.
/// Source: torch::optim and torch::nn::utils::clip_grad_norm_ of LibTorch; its fused optimizers' kernels.
///
///   auto loss_fn = dp::aot_function(gpt_loss);
///   auto step = dp::capture_step(optimizer, {.max_gradient_norm = 1.0});
///   for (const Batch& batch : batches) step(loss_fn(model, batch));
TrainingStep capture_step(torch::optim::Optimizer& optimizer, const StepOptions& options = {});

}  // namespace diptych
