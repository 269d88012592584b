// Inputs that tests of the semantics share.
#pragma once
#include "testing/values.h"

namespace diptych::testing {

inline Tensors one() { return {leaf({2, 3})}; }
inline Tensors two() { return {leaf({2, 3}), leaf({2, 3}).detach().add(0.5).requires_grad_()}; }
inline Tensors without_grad() { return {values({2, 3}), values({2, 3}).add(1)}; }

// Leaves, and what is computed from them: the function's arguments are no leaves.
inline Inputs non_leaves(std::function<Tensors()> leaves) {
  return {std::move(leaves), [](const Tensors& tensors) {
            Tensors derived;
            for (const at::Tensor& tensor : tensors) derived.push_back(tensor * 2);
            return derived;
          }};
}

inline Inputs cloned(bool requires_grad = true) {
  return {[=] {
            return Tensors{values({3, 3}).set_requires_grad(requires_grad)};
          },
          [](const Tensors& t) { return Tensors{t[0].clone()}; }};
}

}  // namespace diptych::testing
