// A condition as one boolean.
#pragma once
#include <ATen/core/Tensor.h>
#include <ATen/ops/ne.h>

namespace diptych::detail {

/// Whether a number is another than zero, as `if` takes it; a boolean is what it is.
inline at::Tensor truth_of(const at::Tensor& number) {
  return number.scalar_type() == at::kBool ? number : at::ne(number, 0);
}

}  // namespace diptych::detail
