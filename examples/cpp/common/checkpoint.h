// The state of a training run on the disk: written whole or not at all, the last two kept, the newest sound one read
// back.
#pragma once
#include <torch/optim/adamw.h>

#include <optional>

#include "common/program.h"
#include "common/tensor_file.h"

namespace examples {

/// What a run needs to go on exactly where it stopped.
struct TrainState {
  int64_t step = 0;                     ///< steps done
  std::vector<NamedTensor> parameters;  ///< read and written in place
  std::vector<NamedTensor> buffers;     ///< BatchNorm's statistics and the like
  torch::optim::AdamW* optimizer = nullptr;
  std::vector<float> losses = {};  ///< of every step done
  std::vector<double> rates = {};  ///< likewise, the learning rates: a run may go on with another number of steps
};

/// The checkpoints of one run, in one folder.
class CheckpointFolder {
 public:
  /// Makes the folder. Errors: UserError if it can't be made or written to.
  explicit CheckpointFolder(std::filesystem::path folder);

  /// Writes "checkpoint-<step>.safetensors", then removes all but the newest two. `options` is kept with it.
  /// Errors: UserError if the disk refuses; older checkpoints are untouched then.
  std::filesystem::path save(const TrainState& state, const RunOptions& options) const;

  /// A sound checkpoint, read but not yet applied.
  struct Found {
    std::filesystem::path path;
    TensorFile contents;
    RunOptions options;
    std::vector<std::string> skipped;  ///< why newer ones were passed over
  };
  /// The newest sound checkpoint; nothing if the folder holds none at all.
  /// Errors: UserError if it holds checkpoints and every one is damaged.
  std::optional<Found> newest() const;

  /// Removes every checkpoint, and temporary files that a killed run left.
  void clear() const;

 private:
  std::vector<std::filesystem::path> files() const;  // newest first

  std::filesystem::path folder_;
};

/// Puts a checkpoint's tensors, step, losses and random state in place.
/// Errors: UserError if a parameter is missing or has another shape.
void restore(const CheckpointFolder::Found& found, TrainState& state);

}  // namespace examples
