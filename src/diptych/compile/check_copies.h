// Copies of the tensors that a function is given, on which it may run a second time.
#pragma once
#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/edge.h>

#include <unordered_map>
#include <vector>

#include "diptych/trace/shadow.h"

namespace diptych::detail {

/// Copies that lie in memory as the real tensors do, sharing what these share by address, and that look the same to
/// autograd: leaves, views of copies of their bases, or results of a node that stands for all that came before. Hooks
/// are not copied.
class TensorCopies {
 public:
  /// Undefined tensors are their own copies.
  explicit TensorCopies(const std::vector<at::Tensor>& reals);

  const std::vector<at::Tensor>& copies() const { return copies_; }
  /// The edges at which the gradients of the copies arrive, from before the copies were used; invalid if a copy
  /// requires none.
  const torch::autograd::edge_list& edges() const { return edges_; }
  /// Returns the number of the memory that a tensor is in, which is the same for a real storage, its copy, and storages
  /// that overlap it; nullopt for any other storage.
  std::optional<size_t> memory_of(const at::Tensor& tensor) const;
  /// Makes the copies replace the real tensors in `shadow`.
  void enter(Shadow& shadow) const;

 private:
  struct Memory {
    const char* begin = nullptr;
    const char* end = nullptr;
    c10::Device device = c10::kCPU;
    at::Tensor bytes;  ///< of the copy
  };
  void find_memories(const std::vector<at::Tensor>& reals);
  const at::Tensor& copy_of(const at::Tensor& real);
  at::Tensor in_copied_memory(const at::Tensor& real) const;
  void give_history(const at::Tensor& real, at::Tensor& copy);

  struct Copy {
    at::Tensor real;
    at::Tensor copy;
    bool shares_layout = false;
  };
  std::unordered_map<const c10::TensorImpl*, Copy> known_;
  std::vector<Memory> memories_;
  std::unordered_map<const c10::StorageImpl*, size_t> memory_of_;
  std::vector<at::Tensor> copies_;
  torch::autograd::edge_list edges_;
};

}  // namespace diptych::detail
