// What the values of a scan's body depend on, and how many bytes they take.
#pragma once
#include <vector>

#include "diptych/scan_passes/scan_edit.h"

namespace diptych::detail {

/// Facts about a body, by the number of a value or of a node.
class BodyFlow {
 public:
  explicit BodyFlow(const ScanEdit& edit);

  /// Whether a value may differ from step to step: it depends on a slice, a carry, or a node with an effect.
  bool varies(Value value) const { return varies_[value.id]; }
  bool varies(const Node& node) const;
  /// Whether a value depends on a carry, or on a node with an effect, so that it is not known before the loop reaches
  /// its step.
  bool is_sequential(Value value) const { return sequential_[value.id]; }
  bool is_slice(Value value) const { return slice_[value.id]; }
  /// Whether a node is a matrix product, or the like, of an operand that varies with one that does not: many steps of
  /// it are one product of longer matrices. If both vary, as many products of the same size remain.
  bool is_product_with_fixed(const Node& node) const;
  /// The nodes that read each value, in order.
  const std::vector<size_t>& readers(Value value) const { return readers_[value.id]; }
  /// The node that makes a value, or -1.
  int32_t producer(Value value) const { return body_.info(value).node; }
  int64_t bytes(Value value) const { return body_.meta(value).nbytes(); }
  /// Bytes of one step's slices and outputs that are stacked.
  int64_t step_bytes() const { return step_bytes_; }

 private:
  const Graph& body_;
  std::vector<bool> varies_, sequential_, slice_;
  std::vector<std::vector<size_t>> readers_;
  int64_t step_bytes_ = 0;
};

/// Whether a node adds two tensors and does nothing else.
bool is_plain_addition(const Node& node);

/// A slice of up to this many bytes is cheap to keep: the fixed cost of an operator is as much as that of writing and
/// reading its elements in memory that caches do not hold. Measured on one x86 core for `x * 0.5` and sigmoid(x) over
/// 64 and 1024 slices: hoisting is 1.5 to 4 times as fast up to 8 KiB, about equal at 16 KiB, and slower from 64 KiB
/// on, where the fresh memory of large stacks costs several times what the operator does.
inline constexpr int64_t kSmallSliceBytes = 8192;

}  // namespace diptych::detail
