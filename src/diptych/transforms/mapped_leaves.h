// The tensors of vmap()'s arguments, and which of their dimensions counts the elements.
#pragma once
#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <vector>

#include "diptych/tree/tree.h"

namespace diptych::detail {

/// One tensor of the arguments, and its dimension that counts the elements.
struct MappedLeaf {
  at::Tensor tensor;
  std::optional<int64_t> dim;
  std::string path;
};

/// Finds the dimension of each leaf of one argument.
struct MappedLeaves : LeafVisitor {
  std::optional<int64_t> dim;
  std::vector<MappedLeaf> leaves;
  void tensor(const Path& path, const at::Tensor& leaf) { leaves.push_back({leaf, dim, path.str()}); }
  void module_tensor(const Path& path, const at::Tensor& leaf) { leaves.push_back({leaf, std::nullopt, path.str()}); }
};

}  // namespace diptych::detail
