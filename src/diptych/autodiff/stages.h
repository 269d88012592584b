// The parts that a backward is cut into where one result of the function is computed from another.
//
// Note [Stages of a backward]: in eager each result has a node of its own, where the gradient with respect to that
// result can be asked for, kept or changed by a hook. It is the whole gradient: what arrives from outside and what
// comes from the results that are computed from it. One node of ours replaces many of eager's. So where a result is
// computed from another, the inner one begins a stage: its node and all the nodes that its gradient flows on to, up to
// the next inner result. Each stage is a node for autograd. Gradients leave a stage by crossings: to an inner result,
// to a view or a leaf that has its own place outside the graph, or to any other node of a later stage, whose tangent is
// hidden. So each node of the trace belongs to one stage and runs once. Most functions have one stage.
#pragma once
#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/autograd/node.h>

#include <unordered_map>
#include <vector>

#include "diptych/autodiff/output_analysis.h"

namespace diptych::detail {

struct Stages {
  std::unordered_map<const torch::autograd::Node*, size_t> of_node;  ///< where it is not 0
  torch::autograd::edge_list tangents;                               ///< where each enters the trace
  torch::autograd::edge_list crossings;                              ///< one per plan.crossings

  size_t of(const torch::autograd::Node* node) const {
    const auto found = of_node.find(node);
    return found == of_node.end() ? 0 : found->second;
  }
};

/// Returns where a gradient of a primal arrives that does not come by its stand-in, because a Function of the user's
/// was applied to the real tensor, such as a parameter that a module holds: its edge in the autograd graph outside the
/// trace; invalid if nothing can arrive there.
torch::autograd::Edge edge_outside(const Primal& primal);

/// Where gradients leave a stage: at the edges of primals, and of crossings to later stages. A place is the number of a
/// primal, or the number of primals plus that of a crossing.
class GradientPlaces {
 public:
  GradientPlaces(const Recorder& recorder, const Stages& stages);
  /// Whether gradients leave the stage of `from`, or of the edge's own node where that is null, by this edge.
  bool leaves(const torch::autograd::Node* from, const torch::autograd::Edge& edge) const;
  /// Marks the places at which `edge` arrives. Requires: it leaves its stage.
  void mark(const torch::autograd::Edge& edge, std::vector<bool>& gradients) const;

 private:
  const Stages& stages_;
  size_t num_primals_;
  std::unordered_map<const torch::autograd::Node*, std::vector<std::pair<uint32_t, size_t>>> places_;
};

/// Finds the stages and enters them into the plan, tangents of its differentiable slots first. `outputs`: stand-ins of
/// the function's results. `cuts`: whether there may be more than one.
/// Requires: inside the trace, after the analysis.
Stages find_stages(Recorder& recorder, const std::vector<at::Tensor>& outputs, OutputAnalysis& analysis, bool cuts);

}  // namespace diptych::detail
