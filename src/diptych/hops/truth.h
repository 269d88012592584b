// A condition as one boolean.
#pragma once
#include <ATen/core/Tensor.h>
#include <ATen/ops/ne.h>

namespace diptych::detail {

/// Returns whether a number is nonzero, as `if` tests it; a boolean is returned unchanged.
inline at::Tensor truth_of(const at::Tensor& number) {
  return number.scalar_type() == at::kBool ? number : at::ne(number, 0);
}

}  // namespace diptych::detail
