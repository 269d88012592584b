// Running in place: where an operand dies at a pointwise node and has the result's metadata, the result may be written
// over it. Whether nobody else holds the storage is checked at every run.
#pragma once
#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <vector>

#include "diptych/graph/graph.h"
#include "diptych/interpreter/caller.h"

namespace diptych::detail {

/// A chance to run a node over one of its operands. The program gives the result the operand's register, so the written
/// tensor is already where it belongs.
struct Reuse {
  std::unique_ptr<Caller> caller;
  int32_t reference = -1;  ///< the operand's register
  bool is_static = true;
  std::vector<int64_t> sizes, strides;  ///< what the operand must be at run time, where sizes are static
};

/// Returns the operand that `node` may be run over, or none. Prefers values that were made by nodes to graph inputs and
/// views, which someone else is likelier to hold. Requires: `dying` holds the values that die at this node.
Value find_reusable_operand(const Graph& graph, const Node& node, const std::vector<Value>& dying);

/// Makes the caller of the in-place or out= form; nullopt where the operator has no such form that can be called
/// directly.
std::optional<Reuse> make_reuse(const Graph& graph, const Node& node, Value operand, OperandTable& table);

/// Whether `tensor` may be overwritten now: it is a plain dense tensor with the sizes and strides that the result has,
/// and nothing else holds it or its memory (no other tensor, no view, no caller, no buffer lent by from_blob).
bool may_overwrite(const Reuse& reuse, const at::Tensor& tensor);

}  // namespace diptych::detail
