// Checks whether a tensor fits a slot of a captured graph, and whether its strides matter there.
#pragma once
#include <ATen/core/Tensor.h>

#include "diptych/graph/graph.h"

namespace diptych::detail {

/// Checks layout, dtype, device and sizes; strides are free. `who` opens the message; `what` and `index` say which
/// tensor it is. Requires: `tensor` is defined. Errors: UserError names the slot, what came and what is expected: for
/// other tensors, the graph would return nonsense, or a kernel would throw its own complaint.
void check_fits(const char* who, const char* what, size_t index, const Slot& slot, const at::Tensor& tensor,
                const TensorMeta& meta);

/// Checks one tensor for each of the first inputs of `graph`. Errors: UserError for an undefined one; as check_fits().
void check_inputs_fit(const char* who, const Graph& graph, c10::ArrayRef<at::Tensor> tensors);

/// Whether the strides of `value` may decide whether a node of `graph` is legal, or what it reads.
bool strides_matter(const Graph& graph, Value value);

}  // namespace diptych::detail
