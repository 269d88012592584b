// Links the results of one call of a compiled function into autograd's graph.
#pragma once
#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/edge.h>

#include <vector>

#include "diptych/compile/compiled_function.h"

namespace diptych::detail {

class BackwardNode;

/// One call between the run of the forward graph and the return of its results. See Note [Stages of a backward].
class ResultLinks {
 public:
  /// Records the history of the primals before the call changes any of them.
  ResultLinks(const CompiledFunction& function, const std::vector<at::Tensor>& primals);
  ~ResultLinks();

  /// Gives the forward slots their histories and applies the mutations. `residuals`: those of the call; the last one
  /// holds the sizes if these are dynamic.
  void link(std::vector<at::Tensor>& slots, const std::vector<at::Tensor>& residuals);
  /// Hands each node what it keeps of the call. Requires: link() has run.
  void save(const std::vector<at::Tensor>& slots, std::vector<at::Tensor>&& residuals,
            std::vector<at::Tensor>&& gradient_primals, std::vector<at::Tensor>&& generator_states);
  /// Results that had to be made while linking, by position; undefined elsewhere. Empty if there are none.
  std::vector<at::Tensor>& made() { return made_; }

 private:
  void link_stage(size_t stage, std::vector<at::Tensor>& slots, const std::vector<at::Tensor>& residuals);
  torch::autograd::Edge edge_of(const ForwardPlan::Crossing& crossing, const std::vector<at::Tensor>& slots);
  void apply_mutations(const std::vector<at::Tensor>& slots, const std::vector<bool>& of_slots);
  at::Tensor start_of(size_t crossing, size_t stage, const std::vector<at::Tensor>& slots) const;

  const CompiledFunction& function_;
  const std::vector<at::Tensor>& primals_;
  torch::autograd::edge_list primal_edges_;
  std::vector<c10::intrusive_ptr<BackwardNode>> nodes_;  ///< per stage; null where no tangent arrives
  torch::autograd::edge_list crossing_edges_;
  std::vector<bool> is_applied_;  ///< per mutation
  std::vector<at::Tensor> made_;
};

}  // namespace diptych::detail
