// What stands between the gradients of a training step and their use: a reduction over processes, noise, statistics.
#pragma once
#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

namespace diptych {

/// Changes the gradients of a captured step before they are clipped and used. It is called while the step's backward is
/// traced, on stand-ins of the gradients: the ATen operators that it calls become nodes of the graph, in the order of
/// the calls, and run in every step; its own code runs once a capture. Where a backward can't be captured it is called
/// on the gradients themselves, after the run. Requires: it reads no tensors but those that it is given and what it
/// computes from them.
class GradientTransform {
 public:
  virtual ~GradientTransform() = default;

  /// What it records, in words: two transforms with equal keys record the same. A part of the graph's key, and of the
  /// reason that a miss gives.
  virtual std::string key() const = 0;

  /// A trace begins; a run may be traced more than once. Whatever was kept of an earlier trace is forgotten.
  virtual void begin() {}

  /// Gradient `index`, as the optimizer's parameters are counted through all groups, is known now; the nodes behind it
  /// have not been recorded yet. Not called for parameters that nothing flows to.
  virtual void is_ready(size_t index, const at::Tensor& gradient) = 0;

  /// Takes all gradients, undefined where nothing flows, and returns as many: of their sizes and dtypes, or undefined.
  /// One that comes back as it was given is left out of the update when it turns out undefined in a step (a hook may
  /// give nothing); any other counts.
  virtual std::vector<at::Tensor> finish(std::vector<at::Tensor> gradients) = 0;
};

}  // namespace diptych
