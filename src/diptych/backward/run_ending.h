// What a captured backward pass does with its gradients, recorded behind them in the same graph.
#pragma once
#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "diptych/backward/eager_nodes.h"
#include "diptych/backward/run_order.h"

namespace diptych::detail {

/// A tensor that the graph takes after those of the pass's nodes.
struct EndingInput {
  std::string path;
  at::Tensor tensor;
};

/// A gradient as an ending gets it.
struct FoundGradient {
  at::Tensor tensor;  ///< undefined where nothing flows to the leaf
  Origins origins;    ///< by which a run finds that it is undefined after all; see Note [Undefined on the way]
};

/// The end of a pass. While the pass is traced its tensors are stand-ins, and the operators that it calls are recorded;
/// the same calls on real tensors do the same to the gradients of a pass that ran in eager.
class PassEnding {
 public:
  virtual ~PassEnding() = default;

  /// The leaves whose gradients it takes; they are not accumulated.
  virtual const std::vector<at::Tensor>& leaves() const = 0;
  /// Two endings with equal keys, whose inputs have the same sizes, strides and dtypes, record the same.
  virtual std::string key() const = 0;
  virtual std::vector<EndingInput> inputs() const = 0;
  /// A trace begins, maybe another of the same pass.
  virtual void begin() {}
  /// The gradient of leaf `index` is known; nodes that are recorded later have not run yet.
  virtual void gradient_is_ready(size_t /*index*/, const at::Tensor& /*gradient*/) {}
  /// Takes a gradient for each leaf and a tensor for each input; what it returns is what the graph returns.
  virtual std::vector<at::Tensor> finish(const std::vector<FoundGradient>& gradients,
                                         const std::vector<at::Tensor>& inputs) = 0;
  /// Gets what the graph returned when the pass has run.
  virtual void take_results(std::vector<at::Tensor> results) = 0;
};

/// Makes the gradients of `leaves` results of a pass, in the place of their accumulation: result `i` is that of leaf i.
/// Requires: nothing is hooked to their accumulation.
void hand_out_gradients(std::vector<TaskCall>& calls, const std::vector<at::Tensor>& leaves);

}  // namespace diptych::detail
