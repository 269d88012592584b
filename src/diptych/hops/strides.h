// Memory layouts of tensors that pass through loops.
#pragma once
#include <ATen/core/Tensor.h>

#include "diptych/graph/tensor_meta.h"

namespace diptych {

/// `tensor` laid out with the strides of `meta`: itself where it has them, or where they are no dense layout, which no
/// copy can have; else a copy. A body was traced for these strides, and some of its views are legal for no others. Nor
/// are they of what is lazily conjugated or negated, so of that it is a copy, too.
at::Tensor with_strides(const at::Tensor& tensor, const TensorMeta& meta);

/// An uninitialized tensor of this metadata.
at::Tensor empty_like_meta(const TensorMeta& meta);

/// Zeros of this metadata, by an operator that a capture records.
at::Tensor zeros_like_meta(const TensorMeta& meta);

}  // namespace diptych
