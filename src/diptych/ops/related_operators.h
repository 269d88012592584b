// Operators that belong to another one, as LibTorch names them.
#pragma once
#include <cstdint>
#include <optional>

#include "diptych/graph/op.h"

namespace diptych::detail {

/// Returns the form of a matrix product that writes into a tensor which it gives its sizes, aten.mm.out for aten.mm:
/// both have the same shapes, strides and code. nullopt for all other operators. Threads: any.
std::optional<Op> product_into(const Op& op);

/// Returns the pointwise function that `op` computes the gradient of, aten.gelu for aten.gelu_backward; nullopt if it
/// computes none. Threads: any.
std::optional<Op> function_of_gradient(const Op& op);

/// Returns the form of an operator that takes tensors where `op` takes numbers, with all arguments in the same places:
/// aten.pow.Tensor_Tensor for aten.pow.Tensor_Scalar. nullopt if there is none. Threads: any.
std::optional<Op> form_for_tensors(const Op& op);

/// Whether autograd has a formula for `op` of real tensors and none for complex ones, which are then written part by
/// part of each number. Such an operator takes a tensor, what is written into a part of it, and the dim. Threads: any.
bool lacks_complex_formula(const Op& op);

/// What ATen does with a number that a dtype does not hold, as 300 in int8: its forms for tensors wrap it at all times.
enum class NumberRule : uint8_t {
  kWrapped,
  kChecked,  ///< an error, by the dtype that the operands are promoted to
  kFills,    ///< an error, by the dtype of the first operand
};

/// Returns the rule of an operator that has a form for tensors; kWrapped for all others. Threads: any.
NumberRule number_rule(const Op& op);

}  // namespace diptych::detail
