// The tensors of a model as a list with names: of a struct with DIPTYCH_FIELDS, or of a torch::nn module.
#pragma once
#include <diptych/tree/tree.h>
#include <torch/nn/module.h>

#include "common/tensor_file.h"

namespace examples {

/// Every tensor of `tree` in Diptych's order, named as Diptych names it, without the root's name.
template <class Tree>
std::vector<NamedTensor> named_tensors(const Tree& tree) {
  struct Collect : diptych::LeafVisitor {
    void tensor(const diptych::Path& path, const at::Tensor& tensor) { found.emplace_back(path.str(), tensor); }
    std::vector<NamedTensor> found;
  } collect;
  diptych::visit_leaves(tree, diptych::Path(), collect);
  return std::move(collect.found);
}

inline std::vector<NamedTensor> named_parameters(const torch::nn::Module& module) {
  std::vector<NamedTensor> found;
  for (const auto& item : module.named_parameters()) found.emplace_back(item.key(), item.value());
  return found;
}

inline std::vector<NamedTensor> named_buffers(const torch::nn::Module& module) {
  std::vector<NamedTensor> found;
  for (const auto& item : module.named_buffers()) found.emplace_back(item.key(), item.value());
  return found;
}

}  // namespace examples
