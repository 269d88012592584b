// Differentiates a backward where its graph does not say what its derivatives are.
#pragma once
#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "diptych/compile/captured_function.h"
#include "diptych/compile/graph_source.h"

namespace diptych::detail {

/// The gradients of one backward variant as a differentiable function of primals and tangents, whose derivatives are
/// traced as autograd computes them: by the backwards of the user's Functions, and with hooks.
/// Note [Derivatives by levels]: a level is a graph from the primals and some tangents to what arrives at them. It is
/// run below autograd by a Function, whose backward runs the next level: the same graph differentiated in the trace,
/// with one more tangent for each result that is used. So each level is made when it is first needed, and computes
/// everything from the primals again. Random values of the forward are drawn again, as in Note [Second order].
class Derivatives {
 public:
  /// `gradients` was traced by `source`, of which `starts` are the primals that will be given.
  /// Errors: UserError if the gradients depend on another primal, or on a draw that computes.
  Derivatives(std::shared_ptr<const GraphSource> source, TracedValues gradients, const std::vector<size_t>& starts);
  ~Derivatives();

  /// Returns one gradient per primal. `tangents` are those that were defined when the gradients were traced.
  /// Errors: UserError inside of a transform; what kernels throw.
  std::vector<at::Tensor> gradients(const std::vector<at::Tensor>& starts, const std::vector<at::Tensor>& tangents,
                                    const std::vector<at::Tensor>& generator_states) const;

  struct Level;

 private:
  std::shared_ptr<const Level> first_;
};

}  // namespace diptych::detail
