// What happens to the gradients of a training step before they are used: a reduction over processes, noise, statistics.
#pragma once
#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

namespace diptych {

/// Changes the gradients of a captured step before they are clipped and used. It is called while the step's backward is
/// traced, on stand-ins of the gradients: the ATen operators that it calls become nodes of the graph, in the order of
/// the calls, and run in every step; its own code runs once per capture. Where a backward can't be captured, it is
/// called on the gradients themselves, after the run. Requires: it reads no tensors but those that it is given and what
/// it computes from them.
class GradientTransform {
 public:
  virtual ~GradientTransform() = default;

  /// Describes what it records: two transforms with equal keys record the same operators. The words are part of the
  /// graph's key, and of the reason that is given for a miss.
  virtual std::string key() const = 0;

  /// Begins a trace and forgets whatever was kept of an earlier one; a run may be traced more than once.
  virtual void begin() {}

  /// Called when gradient `index` is known, in the order of the optimizer's parameters through all groups; nodes after
  /// it have not been recorded yet. Not called for parameters that nothing flows to.
  virtual void is_ready(size_t index, const at::Tensor& gradient) = 0;

  /// Takes all gradients, undefined where nothing flows, and returns as many: of their sizes and dtypes, or undefined.
  /// A gradient that is returned as it was given is left out of the update in a step where it turns out undefined (a
  /// hook may return nothing); any other counts as defined.
  virtual std::vector<at::Tensor> finish(std::vector<at::Tensor> gradients) = 0;
};

}  // namespace diptych
