// Backwards of batched tangents: vmap over a backward pass gives a node one tangent that stands for many, each of which
// is a tangent of the node's own.
#pragma once
#include <c10/util/FunctionRef.h>
#include <torch/csrc/autograd/variable.h>

#include <string_view>

namespace diptych::detail {

/// Whether a tensor, or what vmap and torch.func have wrapped in it, requires grad.
bool requires_grad_inside(const at::Tensor& tensor);

/// Whether a tensor stands for a batch of values.
bool differs_within_a_batch(const at::Tensor& tensor);

/// Whether one of the tangents is no plain tensor, or a transform of torch.func, or vmap, is active.
bool is_transformed(const torch::autograd::variable_list& tangents);

/// Whether each of the tangents is plain but for being a batch.
bool are_batches(const torch::autograd::variable_list& tangents);

using Backward = c10::function_ref<torch::autograd::variable_list(const torch::autograd::variable_list&)>;

/// Runs `backward` on each element of the batch that the tangents are, by vmap of torch.func or the older one of
/// is_grads_batched, nested or not, and returns the gradients as that batch. A loop, which is right for whatever a
/// backward does; an empty batch takes one step on zeros.
/// Errors: UserError, naming `who`, for tangents that are transformed in another way.
torch::autograd::variable_list backward_by_element(std::string_view who, const torch::autograd::variable_list& tangents,
                                                   Backward backward);

}  // namespace diptych::detail
