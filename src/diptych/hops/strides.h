// Memory layouts of tensors that pass through loops.
#pragma once
#include <ATen/core/Tensor.h>

#include "diptych/graph/tensor_meta.h"

namespace diptych {

/// Returns `tensor` laid out with the strides of `meta`: itself if it has them, or if they are not a dense layout,
/// which no copy can have; else a copy. A body was traced for these strides, and some of its views are legal for no
/// others. They are also illegal for a lazily conjugated or negated tensor, so that is copied, too.
at::Tensor with_strides(const at::Tensor& tensor, const TensorMeta& meta);

/// An uninitialized tensor of this metadata.
at::Tensor empty_like_meta(const TensorMeta& meta);

/// Zeros of this metadata, by an operator that a capture records.
at::Tensor zeros_like_meta(const TensorMeta& meta);

}  // namespace diptych
