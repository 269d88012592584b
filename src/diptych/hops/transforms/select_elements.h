// Choosing between the elements of batches.
#pragma once
#include <ATen/core/Tensor.h>

#include <vector>

#include "diptych/hops/transforms/transformed_body.h"

namespace diptych::detail {

/// Chooses by a flag for each element of a batch. Operators are recorded in a trace, and differentiable.
class SelectElements {
 public:
  /// `chosen`: [batch], of bools.
  explicit SelectElements(at::Tensor chosen);

  /// Returns `yes` where an element is chosen, `no` elsewhere. Shapes: [batch, ...] -> the same.
  at::Tensor choose(const at::Tensor& yes, const at::Tensor& no) const;
  /// Returns `batch` with each element that is not chosen replaced by one that is, whose history is cut off; any
  /// elements where none is chosen. See Note [Branches that differ within a batch].
  at::Tensor or_another(const at::Tensor& batch) const;

 private:
  at::Tensor chosen_;
  at::Tensor first_;  ///< [1], the number of the first that is chosen
};

}  // namespace diptych::detail
