// Metadata of an operator's results, without running it on real tensors: by the shape functions of shapes.h, or by the
// operator's own Meta kernel. This is the only place outside tracing where an operator is called.
#pragma once
#include <optional>
#include <vector>

#include "diptych/graph/graph.h"

namespace diptych::detail {

/// The results of a call, as Graph::add_node and Node::returns want them.
struct InferredResults {
  std::vector<std::optional<TensorMeta>> metas;
  c10::SmallVector<int32_t, 2> returns;
};

/// Infers the results of `op` for operands that are values of `graph`. An output requires a gradient if it is of a
/// floating or complex dtype, an operand requires one, and `grad_enabled` is set.
/// Requires: an ATen operator, one operand per argument of its schema, and static metadata of all operands.
/// Errors: c10::Error where the operands do not fit together.
InferredResults infer_metas(const Graph& graph, const Op& op, c10::ArrayRef<Operand> operands, bool grad_enabled);

}  // namespace diptych::detail
