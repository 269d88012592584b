// Whether a tensor may stand in a slot of a graph that was captured for tensors of one type, and what of it matters.
#pragma once
#include <ATen/core/Tensor.h>

#include "diptych/graph/graph.h"

namespace diptych::detail {

/// Checks layout, dtype, device and sizes; strides are free. `who` opens the message; `what` and `index` say which
/// tensor it is. Requires: `tensor` is defined. Errors: UserError names the slot, what came and what is expected: the
/// graph would give nonsense, or a kernel's own complaint, for other tensors.
void check_fits(const char* who, const char* what, size_t index, const Slot& slot, const at::Tensor& tensor,
                const TensorMeta& meta);

/// Checks one tensor for each of the first inputs of `graph`. Errors: UserError for one that is undefined; as above.
void check_inputs_fit(const char* who, const Graph& graph, c10::ArrayRef<at::Tensor> tensors);

/// Whether the strides of `value` may decide if a node of `graph` is legal, or what it reads.
bool strides_matter(const Graph& graph, Value value);

}  // namespace diptych::detail
