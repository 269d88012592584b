// The transforms of torch.func and vmap that a thread is inside of, as levels: each wraps the tensors that it
// transforms.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/core/GradMode.h>

#include <memory>
#include <optional>
#include <vector>

// The header that defines these reads all of nlohmann's, and users' programs include this one.
namespace at::functorch {
enum class RandomnessType;
enum class TransformType;
struct DynamicLayer;
}  // namespace at::functorch

namespace diptych::detail {

/// What the elements of a batch have in common.
struct Batch {
  int64_t size = 0;
  at::functorch::RandomnessType randomness = {};  ///< RandomnessType::Error
};

/// One level. Its wrappers are batched tensors for a vmap, and TensorWrappers for grad and jvp.
struct TransformLevel {
  at::functorch::TransformType kind = {};  ///< TransformType::Torch, which is none
  int64_t id = 0;
  Batch batch = {};  ///< of a vmap
};

/// Whether the thread is inside of a transform. Costs some nanoseconds.
bool levels_are_active();

/// Returns the innermost level. Requires: levels_are_active().
TransformLevel innermost_level();

/// What is inside a wrapper of one level.
struct Unwrapped {
  at::Tensor value;
  std::optional<int64_t> batch_dim = {};  ///< of a batched tensor
  bool is_wrapped = false;
};

/// Returns what a tensor wraps at this level; the tensor itself if that is nothing. A wrapper whose transform has ended
/// counts as what it wraps.
Unwrapped unwrap(const at::Tensor& tensor, const TransformLevel& level);

/// Returns what a wrapper holds whose transform has ended; the tensor itself if it is none.
at::Tensor value_of_dead(const at::Tensor& tensor);

/// Returns a tensor wrapped for a level of grad or jvp, or as the batch whose first dimension counts the elements.
at::Tensor wrap(const at::Tensor& value, const TransformLevel& level);

/// Takes the innermost level off the thread while it lives; grad modes are then those around the transform.
class BelowLevel {
 public:
  BelowLevel();
  ~BelowLevel();
  BelowLevel(const BelowLevel&) = delete;
  BelowLevel& operator=(const BelowLevel&) = delete;

 private:
  std::unique_ptr<at::functorch::DynamicLayer> layer_;
  std::optional<c10::AutoGradMode> grad_mode_;
  std::optional<c10::AutoFwGradMode> forward_grad_mode_;
};

/// Puts a transform around what the thread does while it lives.
class InnerLevel {
 public:
  /// A vmap.
  explicit InnerLevel(const Batch& batch);
  /// A grad or a jvp; one of the latter needs a level of forward-mode automatic differentiation, which its caller has
  /// entered.
  explicit InnerLevel(at::functorch::TransformType kind);
  ~InnerLevel();
  InnerLevel(const InnerLevel&) = delete;
  InnerLevel& operator=(const InnerLevel&) = delete;

  const TransformLevel& level() const { return level_; }

 private:
  TransformLevel level_;
};

/// Puts all levels aside while it lives: a trace records what a function does to plain tensors.
class NoLevels {
 public:
  NoLevels();
  ~NoLevels();
  NoLevels(const NoLevels&) = delete;
  NoLevels& operator=(const NoLevels&) = delete;

 private:
  std::vector<at::functorch::DynamicLayer> layers_;
};

}  // namespace diptych::detail
