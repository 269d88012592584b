#include "diptych/transforms/vjp.h"

#include <ATen/functorch/Interpreter.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/autograd.h>

#include "diptych/base/check.h"
#include "diptych/trace/levels.h"

namespace diptych::detail {
namespace {

using Tensors = std::vector<at::Tensor>;

bool is_differentiable(const at::Tensor& tensor) { return tensor.is_floating_point() || tensor.is_complex(); }

}  // namespace

RecordedCall record_call(const FlatFunction& function, const Flattened& arguments) {
  RecordedCall call;
  const InnerLevel level(at::functorch::TransformType::Grad);
  const c10::AutoGradMode record(true);
  for (size_t i = 0; i < arguments.tensors.size(); ++i) {
    DIPTYCH_CHECK(arguments.tensors[i].defined(),
                  "[vjp] '{}' is an undefined tensor; pass a defined one, or an absent optional",
                  arguments.spec.tensor_path(i));
    at::Tensor input = wrap(arguments.tensors[i], level.level());
    if (is_differentiable(input)) input.set_requires_grad(true);
    call.inputs.push_back(std::move(input));
  }
  FlatResult result = function(call.inputs);
  for (const at::Tensor& tensor : result.tensors) call.values.push_back(unwrap(tensor, level.level()).value);
  call.results = std::move(result.tensors);
  call.paths = std::move(result.paths);
  return call;
}

Tensors gradients_of(const RecordedCall& call, const Tensors& tangents) {
  DIPTYCH_CHECK(tangents.size() == call.results.size(),
                "[vjp] got {} tangents for {} results; pass a tree like the result", tangents.size(),
                call.results.size());
  Tensors roots, given, starts;
  for (size_t i = 0; i < tangents.size(); ++i) {
    DIPTYCH_CHECK(tangents[i].defined() && tangents[i].sizes() == call.values[i].sizes(),
                  "[vjp] the tangent of '{}' does not look like it; pass one of the same sizes and dtype",
                  call.paths[i]);
    if (!call.results[i].requires_grad()) continue;
    roots.push_back(call.results[i]);
    given.push_back(tangents[i]);
  }
  for (const at::Tensor& input : call.inputs) {
    if (input.requires_grad()) starts.push_back(input);
  }
  Tensors found(starts.size());
  if (!roots.empty() && !starts.empty()) {
    found = torch::autograd::grad(roots, starts, given, /*retain_graph=*/true, /*create_graph=*/true,
                                  /*allow_unused=*/true);
  }
  Tensors gradients;
  size_t next = 0;
  for (const at::Tensor& input : call.inputs) {
    at::Tensor gradient = input.requires_grad() ? found[next++] : at::Tensor();
    gradients.push_back(value_of_dead(gradient.defined() ? gradient : at::zeros_like(input)));
  }
  return gradients;
}

}  // namespace diptych::detail
