#include "diptych/compile/gradients.h"

#include <ATen/functorch/Interpreter.h>
#include <ATen/ops/_make_dual.h>
#include <ATen/ops/_unpack_dual.h>
#include <ATen/ops/alias.h>
#include <ATen/ops/zeros_like.h>

#include "diptych/base/check.h"
#include "diptych/trace/transforms.h"

namespace diptych::detail {

namespace {

// Returns `primal` with the tangent of `dual`, which detach() drops.
at::Tensor with_tangent_of(const at::Tensor& dual, const at::Tensor& primal) {
  if (!has_tangent(dual)) return primal;
  const at::Tensor tangent = std::get<1>(at::_unpack_dual(dual, /*level=*/0));
  return tangent.defined() ? at::_make_dual(primal, tangent, /*level=*/0) : primal;
}

}  // namespace

void enter_grad_in_vmap(std::optional<InnerLevel>& level) {
  using Kind = at::functorch::TransformType;
  if (levels_are_active() && innermost_level().kind == Kind::Vmap) level.emplace(Kind::Grad);
}

std::vector<at::Tensor> differentiation_inputs(const Flattened& flat) {
  std::vector<at::Tensor> inputs;
  for (size_t i = 0; i < flat.tensors.size(); ++i) {
    const at::Tensor& tensor = flat.tensors[i];
    DIPTYCH_CHECK(at::isFloatingType(tensor.scalar_type()) || at::isComplexType(tensor.scalar_type()),
                  "[grad] leaf '{}' of the first argument has dtype {}, expected a floating-point one; move it to "
                  "another argument",
                  flat.spec.tensor_path(i), c10::toString(tensor.scalar_type()));
    // A tensor that requires grad stays connected, so that the gradients can be differentiated again.
    inputs.push_back(tensor.requires_grad() ? at::alias(tensor)
                                            : with_tangent_of(tensor, tensor.detach().requires_grad_(true)));
  }
  return inputs;
}

std::vector<at::Tensor> scalar_gradients(const at::Tensor& value, const std::vector<at::Tensor>& inputs,
                                         const std::vector<at::Tensor>& originals) {
  DIPTYCH_CHECK(value.defined() && value.numel() == 1 && at::isFloatingType(value.scalar_type()),
                "[grad] the function returned {}, expected one floating-point number; reduce it with sum() or mean()",
                value.defined() ? c10::str(value.toString(), " of shape ", value.sizes()) : "an undefined tensor");
  const bool again =
      std::any_of(originals.begin(), originals.end(), [](const at::Tensor& t) { return t.requires_grad(); });
  std::vector<at::Tensor> gradients(inputs.size());
  if (value.requires_grad()) {
    gradients = torch::autograd::grad({value}, inputs, {}, /*retain_graph=*/again, /*create_graph=*/again,
                                      /*allow_unused=*/true);
  }
  for (size_t i = 0; i < gradients.size(); ++i) {
    if (!gradients[i].defined()) gradients[i] = at::zeros_like(originals[i]);
  }
  return gradients;
}

at::Tensor without_history(const at::Tensor& tensor, const std::vector<at::Tensor>& inputs,
                           const std::vector<at::Tensor>& originals) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (tensor.is_same(inputs[i])) return originals[i];
  }
  return tensor.requires_grad() && !tensor.is_leaf() ? with_tangent_of(tensor, tensor.detach()) : tensor;
}

}  // namespace diptych::detail
