// Where the programs meet Diptych: the loss function of a model, run by a captured pair of graphs or in plain eager.
#pragma once
#include <diptych/diptych.h>
#include <torch/nn/module.h>

#include "common/trainer.h"

namespace examples {

namespace dp = diptych;

/// What the user's options ask of Diptych. Errors: UserError if --partition names no partitioner.
dp::AotOptions aot_options(const TrainOptions& options);

/// Gives `trainable` the loss of `model`: loss_fn(model, inputs, targets), where the model is a struct with
/// DIPTYCH_FIELDS or a torch::nn module holder. In eager it is called as it is; else its forward and backward graphs
/// are captured at the first call and run from then on.
template <class LossFn, class Model>
void set_loss(Trainable& trainable, const LossFn& loss_fn, Model model, const TrainOptions& options,
              const std::string& backend) {
  if (backend == "eager") {
    trainable.loss = [=](const Batch& batch) mutable { return loss_fn(model, batch.inputs, batch.targets); };
    return;
  }
  const dp::AotOptions aot = aot_options(options);
  const dp::Aot compiled = dp::aot_function(loss_fn, aot);
  trainable.loss = [=](const Batch& batch) mutable { return compiled(model, batch.inputs, batch.targets); };
  trainable.capture = [=](const Batch& batch) mutable {
    return dp::capture_with(aot, loss_fn, model, batch.inputs, batch.targets);
  };
}

}  // namespace examples
