// The end of a training step's backward: gradients transformed, clipped, and used for the optimizer's update.
#pragma once
#include "diptych/backward/optimizer_state.h"
#include "diptych/backward/run_ending.h"
#include "diptych/backward/step.h"
#include "diptych/backward/update_parameters.h"

namespace diptych::detail {

/// The ending of one step, made before its backward from what the optimizer holds then.
class StepEnding final : public RunEnding {
 public:
  /// Errors: UserError for parameters, state and hooks that a step can't hold.
  StepEnding(torch::optim::Optimizer& optimizer, const StepOptions& options);

  const std::vector<at::Tensor>& leaves() const override { return parameters_; }
  std::string key() const override;
  std::vector<EndingInput> inputs() const override;
  void begin() override;
  void gradient_is_ready(size_t index, const at::Tensor& gradient) override;
  std::vector<at::Tensor> finish(const std::vector<FoundGradient>& gradients,
                                 const std::vector<at::Tensor>& inputs) override;
  void take_results(std::vector<at::Tensor> results) override;

  /// Ends a run in eager with the gradients that it has accumulated. Errors: UserError for those that are not strided.
  void run_in_eager();
  /// Whether the update has run.
  bool is_done() const { return is_done_; }
  /// Returns the norm of the gradients before they were clipped; 0 if there was none.
  double norm() const { return norm_; }

 private:
  /// The state kept for one parameter. Fresh state is memory without values; the optimizer gets it if the update used
  /// it.
  struct State {
    size_t group = 0;
    std::vector<at::Tensor> tensors;
    int64_t steps = kNoState;
  };

  std::vector<FoundGradient> transformed(std::vector<FoundGradient> gradients) const;
  at::Tensor clip(std::vector<FoundGradient>& found) const;
  void record_update(const std::vector<FoundGradient>& gradients, const std::vector<at::Tensor>& inputs) const;
  void keep_gradients(const std::vector<at::Tensor>& results, size_t first) const;

  const OptimizerState optimizer_;
  const StepOptions& options_;
  std::vector<at::Tensor> parameters_;
  std::vector<State> states_;  ///< per parameter
  at::Tensor steps_, rates_;
  double norm_ = 0;
  bool is_done_ = false;
};

}  // namespace diptych::detail
