// A graph as another program's module.
#pragma once
#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

namespace diptych::detail {

/// A StableHLO module as text. Its function `main` takes one tensor for each input slot of the graph, then `constants`;
/// it returns one for each output slot that is not empty. Sizes are those of the slots, in their order.
struct StableHloModule {
  std::string text;
  std::vector<at::Tensor> constants;
};

}  // namespace diptych::detail
