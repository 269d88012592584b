// What a step does to its gradients before it uses them: a user's transform, and clipping by their norm.
#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <vector>

#include "diptych/backward/gradient_transform.h"

namespace diptych::detail {

/// Applies the end of a transform: gradients, undefined where nothing flows, become others of the same sizes and
/// dtypes, or undefined. `path_of` names parameters in errors. Errors: UserError for a transform that returns anything
/// else.
std::vector<at::Tensor> transform_gradients(GradientTransform& transform, const std::vector<at::Tensor>& gradients,
                                            const std::vector<at::Tensor>& parameters,
                                            const std::function<std::string(size_t)>& path_of);

/// Scales gradients down, in new tensors, so that the p-norm (`norm_type`) of all of them together is at most
/// `max_norm`, as torch::nn::utils::clip_grad_norm_ does, and returns the norm before that, a scalar; undefined if
/// there is no gradient. Undefined gradients are passed over.
at::Tensor clip_gradients(std::vector<at::Tensor>& gradients, double max_norm, double norm_type);

}  // namespace diptych::detail
