// The parts of LibTorch's engine around a call of an autograd node: hooks, and the check of its results.
#pragma once
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function_hook.h>

namespace diptych::detail {

/// Whether gradients that pass a node pass a hook on one of its sides.
inline bool has_hooks(torch::autograd::Node& node) {
  return !node.tensor_pre_hooks().empty() || !node.pre_hooks().empty() || !node.post_hooks().empty();
}

/// Returns the gradients after a list of hooks was called on them, one after the other.
torch::autograd::variable_list hooked(const auto& hooks, torch::autograd::variable_list gradients) {
  for (const auto& hook : hooks) gradients = (*hook)(gradients);
  return gradients;
}

/// Checks the results of a node against `expected` (its edges, or the metadata of the places they lead to), and casts,
/// sums or expands gradients as the engine does. Errors name the node.
void validate_outputs_of(const torch::autograd::Node& node, const auto& expected,
                         torch::autograd::variable_list& outputs) {
  torch::autograd::validate_outputs(
      expected, outputs, [&node](const std::string& problem) { return "Function " + node.name() + " " + problem; });
}

}  // namespace diptych::detail
