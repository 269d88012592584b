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

/// The end of a run. While the run is traced, an ending gets stand-ins, and the operators that it calls are recorded.
/// For a run in eager, it makes the same calls on the gradients themselves.
class RunEnding {
 public:
  virtual ~RunEnding() = default;

  /// The leaves whose gradients it takes; they are not accumulated.
  virtual const std::vector<at::Tensor>& leaves() const = 0;
  /// Returns the key: two endings with equal keys, whose inputs have the same sizes, strides and dtypes, record the
  /// same.
  virtual std::string key() const = 0;
  virtual std::vector<EndingInput> inputs() const = 0;
  /// Begins a trace; a run may be traced more than once.
  virtual void begin() {}
  /// Called when the gradient of leaf `index` is known; nodes that are recorded later have not run yet.
  virtual void gradient_is_ready(size_t /*index*/, const at::Tensor& /*gradient*/) {}
  /// Takes a gradient for each leaf and a tensor for each input; its results become the graph's.
  virtual std::vector<at::Tensor> finish(const std::vector<FoundGradient>& gradients,
                                         const std::vector<at::Tensor>& inputs) = 0;
  /// Takes what the graph returned, after it has run.
  virtual void take_results(std::vector<at::Tensor> results) = 0;
};

/// Makes the gradients of `leaves` results of a run, instead of accumulating them: result `i` is that of leaf i.
/// Requires: no hook is on their accumulation.
void hand_out_gradients(std::vector<RunCall>& calls, const std::vector<at::Tensor>& leaves);

}  // namespace diptych::detail
