// The training loop: batches, AdamW with warm-up and cosine, checkpoints, progress, a clean stop on Ctrl-C, and the
// comparison with eager.
#pragma once
#include <diptych/backward/step.h>
#include <diptych/pair/pair.h>
#include <torch/optim/adamw.h>

#include <functional>
#include <optional>

#include "common/batch.h"
#include "common/checkpoint.h"
#include "common/finding.h"
#include "common/program.h"

namespace examples {

/// A model that is ready to train.
struct Trainable {
  std::vector<NamedTensor> parameters = {}, buffers = {};
  std::function<at::Tensor(const Batch&)> loss = {};
  /// The loss's graphs, for the report; empty where the loss runs in eager.
  std::function<diptych::Pair(const Batch&)> capture = {};
  /// What is found out about the trained model at the end.
  std::function<std::vector<Finding>()> evaluate = {};
};

/// What a program trains.
struct Task {
  double units_per_step = 1;  ///< tokens or images
  std::function<Batch(int64_t step)> batch;
  /// Makes the model from torch's default generator, its loss run by the named backend.
  std::function<Trainable(const std::string& backend)> build;
};

/// Seconds that one step's phases took: the loss, and its backward with clipping and the parameters' update.
struct StepTimes {
  double forward = 0, update = 0;
  double total() const { return forward + update; }
};

/// Learning rate of step `step` (from 0).
double learning_rate(const TrainOptions& options, int64_t step);

/// A model with its optimizer, part-way through a run.
class TrainRun {
 public:
  /// Seeds torch's default generator, builds the model, and seeds again: dropout draws what eager's does.
  TrainRun(const TrainOptions& options, const Task& task, const std::string& backend);

  /// Does one step, at the schedule's learning rate or a given one. Errors: UserError if the loss is not finite.
  float step() { return step(learning_rate(options_, state_.step)); }
  float step(double rate);
  /// Puts a checkpoint in place. Errors: UserError if it belongs to a run with other options.
  void resume(const CheckpointFolder::Found& found);

  const TrainState& state() const { return state_; }
  const std::vector<StepTimes>& times() const { return times_; }
  Trainable& model() { return model_; }

 private:
  const TrainOptions& options_;
  const Task& task_;
  Trainable model_;
  std::unique_ptr<torch::optim::AdamW> optimizer_;
  std::optional<diptych::TrainingStep> update_;  // not in eager
  TrainState state_;
  std::vector<StepTimes> times_;  // of this process's steps
};

/// How far the losses of the run are from those of the same run in eager.
struct Comparison {
  int64_t steps = 0;
  double largest = 0;         ///< largest |loss - eager loss|
  int64_t largest_at = 0;     ///< the step where it is, from 1
  std::vector<float> losses;  ///< eager's
  std::vector<StepTimes> times;
};
inline constexpr double kLossTolerance = 1e-4;

/// Medians of the steps but for the first, which captures and compiles.
StepTimes median_times(const std::vector<StepTimes>& times);

/// Trains, writes checkpoints, loss curve and report into options.out, prints what came out. Returns the exit code:
/// 1 if the losses differ from eager's by more than kLossTolerance. A SIGINT or SIGTERM ends it early, after a
/// checkpoint.
int train(const TrainOptions& options, const Task& task);

}  // namespace examples
