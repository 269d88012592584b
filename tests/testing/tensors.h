// Lists of tensors, which most tests hold and compare.
#pragma once
#include <torch/types.h>

#include <vector>

namespace diptych::testing {

using Tensors = std::vector<at::Tensor>;

}  // namespace diptych::testing
