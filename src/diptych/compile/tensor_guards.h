// The check that the tensors of a call look like those that a graph was captured for.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/util/ArrayRef.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "diptych/graph/size_pattern.h"

namespace diptych::detail {

/// Guards on sizes, strides, dtype, device, requires_grad, leafness and the pattern of shared storages of a list of
/// tensors; where it matters, also on the pattern of memory that several storages share. check() neither allocates nor
/// dispatches if no memory is lent. Threads: const members from any.
class TensorGuards {
 public:
  enum class Memory : uint8_t {
    kByStorage,  ///< nothing is written to: shared memory matters only where autograd sees it, by its storage
    kByAddress   ///< a write to one tensor shows in all that share its memory, under whatever storage
  };
  /// `counted_offsets`: the tensors whose storage offset must be the same, too.
  explicit TensorGuards(c10::ArrayRef<const at::Tensor*> tensors, Memory memory = Memory::kByStorage,
                        c10::ArrayRef<size_t> counted_offsets = {});
  /// Whether the tensors pass the guards. If sizes are dynamic, `symbols` receives their values.
  bool check(c10::ArrayRef<const at::Tensor*> tensors, SymbolValues* symbols = nullptr) const;
  /// Describes the first guard that fails, naming tensors by `path_of`: "x: size was [2, 3], is [4, 3]"; empty if none
  /// does.
  std::string first_failure(c10::ArrayRef<const at::Tensor*> tensors,
                            const std::function<std::string(size_t)>& path_of) const;

  /// The sizes, then the strides, of each tensor that was given, one after the other.
  const std::vector<int64_t>& geometry() const { return geometry_; }
  size_t size() const { return facts_.size(); }
  /// Where a tensor's part of geometry() begins.
  size_t place_of(size_t tensor) const { return facts_[tensor].geometry; }
  /// Whether the tensors of two calls differ only in sizes and strides, if at all.
  bool same_but_geometry(const TensorGuards& other) const {
    return facts_ == other.facts_ && sharing_ == other.sharing_ && lent_ == other.lent_ && offsets_ == other.offsets_;
  }
  /// Lets all geometries that match `pattern` pass from now on.
  void generalize(SizePattern pattern) { pattern_ = std::move(pattern); }
  bool is_dynamic() const { return pattern_.has_value(); }

 private:
  struct Facts {
    at::ScalarType dtype;
    bool requires_grad = false;
    bool is_leaf;
    bool defined = false;
    c10::Device device;
    c10::Layout layout = c10::kStrided;
    bool is_conjugate = false;
    bool is_negative = false;
    bool is_inference = false;
    uint32_t dim = 0;
    uint32_t geometry;  ///< where this tensor's sizes, then strides, start in geometry_
    bool operator==(const Facts&) const = default;
  };
  static Facts facts_of(const at::Tensor& tensor, uint32_t geometry);
  bool same_geometry(const at::Tensor& tensor, const Facts& facts) const;

  std::optional<SymbolValues> match(c10::ArrayRef<const at::Tensor*> tensors) const;

  /// Returns the index of the first offset that has changed; the number of offsets if none has.
  size_t first_other_offset(c10::ArrayRef<const at::Tensor*> tensors) const;

  struct Offset {
    size_t tensor;
    int64_t offset;
    bool operator==(const Offset&) const = default;
  };
  std::vector<Offset> offsets_;
  std::vector<Facts> facts_;
  std::vector<int64_t> geometry_;
  std::optional<SizePattern> pattern_;
  /// How a tensor shares its storage: with which first tensor, how far apart their offsets are, whether they are the
  /// same tensor, and whether autograd sees them as views of the same base.
  struct Sharing {
    uint32_t first = 0;
    int64_t apart = 0;
    bool same = true;
    bool same_base = true;
    bool operator==(const Sharing&) const = default;
  };
  static Sharing sharing_of(c10::ArrayRef<const at::Tensor*> tensors, uint32_t index, uint32_t first);

  /// A storage that shares memory with the storage of an earlier tensor: the first tensor of each, and how far apart
  /// they are.
  struct Lent {
    uint32_t tensor = 0;
    uint32_t first = 0;
    int64_t bytes_apart = 0;
    bool operator==(const Lent&) const = default;
  };
  static std::vector<Lent> lent_memory(c10::ArrayRef<const at::Tensor*> tensors);
  bool same_lent_memory(c10::ArrayRef<const at::Tensor*> tensors) const;

  std::vector<Sharing> sharing_;
  Memory memory_ = Memory::kByStorage;
  std::vector<Lent> lent_;
};

}  // namespace diptych::detail
