// What a captured backward run does with its gradients, recorded behind them in the same graph.
#pragma once
#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "diptych/backward/eager_nodes.h"
#include "diptych/backward/run_order.h"

namespace diptych::detail {

/// A tensor that the graph takes after those of the run's nodes.
struct EndingInput {
  std::string path;
  at::Tensor tensor;
};

/// A gradient as an ending gets it.
struct FoundGradient {
  at::Tensor tensor;  ///< undefined where nothing flows to the leaf
  MaybeUndefined
      maybe_undefined;  ///< by which a run finds that it is undefined after all; see Note [Undefined on the way]
};

/// The end of a run. While the run is traced its tensors are stand-ins, and the operators that it calls are recorded;
/// the same calls on real tensors do the same to the gradients of a run that ran in eager.
class RunEnding {
 public:
  virtual ~RunEnding() = default;

  /// The leaves whose gradients it takes; they are not accumulated.
  virtual const std::vector<at::Tensor>& leaves() const = 0;
  /// Two endings with equal keys, whose inputs have the same sizes, strides and dtypes, record the same.
  virtual std::string key() const = 0;
  virtual std::vector<EndingInput> inputs() const = 0;
  /// A trace begins, maybe another of the same run.
  virtual void begin() {}
  /// The gradient of leaf `index` is known; nodes that are recorded later have not run yet.
  virtual void gradient_is_ready(size_t /*index*/, const at::Tensor& /*gradient*/) {}
  /// Takes a gradient for each leaf and a tensor for each input; what it returns is what the graph returns.
  virtual std::vector<at::Tensor> finish(const std::vector<FoundGradient>& gradients,
                                         const std::vector<at::Tensor>& inputs) = 0;
  /// Gets what the graph returned when the run has run.
  virtual void take_results(std::vector<at::Tensor> results) = 0;
};

/// Makes the gradients of `leaves` results of a run, in the place of their accumulation: result `i` is that of leaf i.
/// Requires: nothing is hooked to their accumulation.
void hand_out_gradients(std::vector<RunCall>& calls, const std::vector<at::Tensor>& leaves);

}  // namespace diptych::detail
