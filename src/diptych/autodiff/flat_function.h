// A function on a list of tensors, which every capture starts from.
#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <vector>

namespace diptych {

/// The results of a flat function, with a path for each ("0", "loss", ...).
struct FlatResult {
  std::vector<at::Tensor> tensors;
  std::vector<std::string> paths;
};
/// A function on flat tensors; undefined arguments are passed through.
using FlatFunction = std::function<FlatResult(const std::vector<at::Tensor>&)>;

}  // namespace diptych
