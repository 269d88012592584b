// The check that the tensors of a call look like those that a graph was captured for.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/util/ArrayRef.h>

#include <functional>
#include <string>
#include <vector>

namespace diptych {

/// Sizes, strides, dtype, device, requires_grad, leafness and the pattern of shared storages of a list of tensors.
/// check() neither allocates nor dispatches. Threads: const members from any.
class TensorGuards {
 public:
  explicit TensorGuards(c10::ArrayRef<const at::Tensor*> tensors);
  bool check(c10::ArrayRef<const at::Tensor*> tensors) const;
  /// The first guard that fails, naming tensors by `path_of`: "x: sizes were [2, 3], are [4, 3]"; empty if none does.
  std::string first_failure(c10::ArrayRef<const at::Tensor*> tensors,
                            const std::function<std::string(size_t)>& path_of) const;

 private:
  struct Facts {
    at::ScalarType dtype;
    bool requires_grad;
    bool is_leaf;
    bool defined;
    c10::Device device;
    c10::Layout layout;
    uint32_t dim;
    uint32_t geometry;  ///< where this tensor's sizes, then strides, start in geometry_
    bool operator==(const Facts&) const = default;
  };
  static Facts facts_of(const at::Tensor& tensor, uint32_t geometry);
  bool same_geometry(const at::Tensor& tensor, const Facts& facts) const;

  std::vector<Facts> facts_;
  std::vector<int64_t> geometry_;
  /// How a tensor shares its storage: with which first tensor, how far apart their offsets are, whether they are one,
  /// and whether autograd sees them as views of one tensor.
  struct Sharing {
    uint32_t first = 0;
    int64_t apart = 0;
    bool same = true;
    bool same_base = true;
    bool operator==(const Sharing&) const = default;
  };
  static Sharing sharing_of(c10::ArrayRef<const at::Tensor*> tensors, uint32_t index, uint32_t first);

  std::vector<Sharing> sharing_;
};

}  // namespace diptych
