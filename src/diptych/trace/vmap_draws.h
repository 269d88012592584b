// Draws inside of vmap.
#pragma once
#include <ATen/core/dispatch/OperatorEntry.h>
#include <ATen/core/stack.h>

#include <array>

namespace diptych::detail {

/// Draws as graphs have them, functions of the tensor that eager draws into, for which LibTorch 2.13 has no rule inside
/// of vmap: it draws them element by element, whatever vmap's `randomness` says.
inline constexpr std::array kDrawsWithoutRule = {
    "aten::bernoulli.Tensor", "aten::normal_functional", "aten::uniform", "aten::exponential", "aten::cauchy",
    "aten::geometric",        "aten::log_normal",        "aten::random",  "aten::random.from", "aten::random.to",
};

/// Kernel of these for vmap: draws in place into a copy, for which LibTorch's rules hold.
void draw_into_a_copy(const c10::OperatorHandle& op, torch::jit::Stack* stack);

}  // namespace diptych::detail
