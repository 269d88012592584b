// Refuses what a function does to gradients but a graph can't hold, instead of dropping it.
#pragma once
#include <torch/csrc/autograd/node.h>

#include <unordered_set>

#include "diptych/autodiff/output_analysis.h"

namespace diptych::detail {

/// Whether gradients from `roots` reach a node for which `is_wanted` holds.
template <class IsWanted>
bool reaches(const torch::autograd::edge_list& roots, const IsWanted& is_wanted) {
  std::vector<torch::autograd::Node*> pending;
  std::unordered_set<torch::autograd::Node*> seen;
  const auto push = [&](const torch::autograd::Edge& edge) {
    if (edge.is_valid() && seen.insert(edge.function.get()).second) pending.push_back(edge.function.get());
  };
  for (const auto& root : roots) push(root);
  while (!pending.empty()) {
    torch::autograd::Node* node = pending.back();
    pending.pop_back();
    if (is_wanted(*node)) return true;
    for (const auto& edge : node->next_edges()) push(edge);
  }
  return false;
}

/// Checks that the gradients of a function's outputs pass everything that the function put on their way, wherever they
/// enter the graph, and that the function has put nothing on tensors that their owners have after the call. `outputs`:
/// stand-ins, all defined. Throws TransformMet where the function may be run itself. Errors: UserError names the output
/// or the argument.
void check_gradients_pass(const Recorder& recorder, const std::vector<at::Tensor>& outputs,
                          const OutputAnalysis& analysis, size_t num_arguments, const CaptureOptions& options);

}  // namespace diptych::detail
