// Numbers as dtypes hold them.
#pragma once
#include <c10/core/ScalarType.h>

namespace diptych::detail {

/// The element of a floating dtype that is nearest to a number.
inline double rounded_to(at::ScalarType dtype, double number) {
  if (dtype == at::kDouble) return number;
  const auto narrow = static_cast<float>(number);
  if (dtype == at::kHalf) return static_cast<float>(at::Half(narrow));
  return dtype == at::kBFloat16 ? static_cast<float>(at::BFloat16(narrow)) : narrow;
}

}  // namespace diptych::detail
