// Programs by backend "native" beside eager: the options of such a check, and leaves to run them on.
#pragma once
#include <torch/types.h>

#include <functional>
#include <utility>
#include <vector>

#include "testing/eager_check.h"

namespace diptych::testing {

inline CheckOptions natively(double tolerance = 2e-5) {
  CheckOptions options;
  options.aot.backend = "native";
  options.tolerance = tolerance;
  return options;
}

/// Leaves of these sizes, the same at each call.
inline std::function<Tensors()> leaves_of(std::vector<std::vector<int64_t>> sizes) {
  return [sizes = std::move(sizes)] {
    torch::manual_seed(5);
    Tensors leaves;
    for (const auto& size : sizes) leaves.push_back(torch::randn(size).requires_grad_());
    return leaves;
  };
}

}  // namespace diptych::testing
