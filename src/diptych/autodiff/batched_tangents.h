// Backwards of batched tangents: vmap over a backward run passes a node one tangent that represents many, each of which
// is a tangent of its own.
#pragma once
#include <c10/util/FunctionRef.h>
#include <torch/csrc/autograd/variable.h>

#include <string_view>

namespace diptych::detail {

/// Whether a tensor, or one that vmap or torch.func has wrapped in it, requires grad.
bool requires_grad_inside(const at::Tensor& tensor);

/// Whether a tensor, or one that is wrapped in it, has a forward-mode tangent.
bool has_tangent_inside(const at::Tensor& tensor);

/// Whether a tensor represents a batch of values.
bool differs_within_a_batch(const at::Tensor& tensor);

/// Whether one of the tangents is not a plain tensor, or a transform of torch.func, or vmap, is active.
bool is_transformed(const torch::autograd::variable_list& tangents);

/// Whether one of the tangents is a batch of the older vmap, that of is_grads_batched, which higher-order operators
/// have no rules for.
bool are_legacy_batches(const torch::autograd::variable_list& tangents);

/// Whether each of the tangents is plain apart from being a batch.
bool are_batches(const torch::autograd::variable_list& tangents);

using Backward = c10::function_ref<torch::autograd::variable_list(const torch::autograd::variable_list&)>;

/// Runs `backward` on each element of a batch of tangents, made by vmap of torch.func or the older one of
/// is_grads_batched, nested or not, and returns the gradients as that batch. It is a loop, which is right whatever a
/// backward does; an empty batch takes one step on zeros.
/// Errors: UserError, naming `who`, for tangents that are transformed in another way.
torch::autograd::variable_list backward_by_element(std::string_view who, const torch::autograd::variable_list& tangents,
                                                   Backward backward);

}  // namespace diptych::detail
