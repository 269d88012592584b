// What runs around a node of the autograd graph, as the engine does it.
#pragma once
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function_hook.h>

namespace diptych::detail {

/// The gradients after a list of hooks has seen them, one after the other.
torch::autograd::variable_list hooked(const auto& hooks, torch::autograd::variable_list gradients) {
  for (const auto& hook : hooks) gradients = (*hook)(gradients);
  return gradients;
}

/// Checks what a node gave against `expected` (edges, or what is known of where they lead), names it in errors, and
/// casts, sums or expands gradients as the engine does.
void validate_outputs_of(const torch::autograd::Node& node, const auto& expected,
                         torch::autograd::variable_list& outputs) {
  torch::autograd::validate_outputs(
      expected, outputs, [&node](const std::string& problem) { return "Function " + node.name() + " " + problem; });
}

}  // namespace diptych::detail
