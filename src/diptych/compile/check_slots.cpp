#include "diptych/compile/check_slots.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "diptych/base/check.h"
#include "diptych/graph/subgraphs.h"
#include "diptych/ops/tags.h"

namespace diptych::detail {

void check_fits(const char* who, const char* what, size_t index, const Slot& slot, const at::Tensor& tensor,
                const TensorMeta& meta) {
  DIPTYCH_CHECK(tensor.layout() == c10::kStrided,
                "[{}] {} {} ({}) is of layout {}, expected a strided tensor; call to_dense()", who, what, index,
                slot.path, c10::str(tensor.layout()));
  if (tensor.scalar_type() == meta.dtype && tensor.device() == meta.device &&
      tensor.sizes() == c10::IntArrayRef(meta.size_hints())) {
    return;
  }
  throw UserError(
      fmt::format("[{}] {} {} ({}) is {}[{}], expected {}[{}]; convert it, or capture again for such tensors", who,
                  what, index, slot.path, dtype_name(tensor.scalar_type()), fmt::join(tensor.sizes(), ","),
                  dtype_name(meta.dtype), fmt::join(meta.size_hints(), ",")));
}

void check_inputs_fit(const char* who, const Graph& graph, c10::ArrayRef<at::Tensor> tensors) {
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Slot& slot = graph.input_slots()[i];
    const TensorMeta& meta = graph.meta(graph.inputs()[i]);
    DIPTYCH_CHECK(tensors[i].defined(), "[{}] input {} ({}) is undefined, expected {}; pass a tensor", who, i,
                  slot.path, type_string(meta));
    check_fits(who, "input", i, slot, tensors[i], meta);
  }
}

namespace {

// Whether a kernel may read memory as it was laid out when the node was traced: a formula of autograd or a Function
// lays a tensor out for a kernel, and that needs no node where it lies so already.
bool trusts_strides(const Node& node) {
  if (!node.op.is_hop()) {
    const bool is_view = has_tag(node.op, Tag::kShapeView) || has_tag(node.op, Tag::kReinterprets);
    return (has_tag(node.op, Tag::kStrideSensitive) && !is_view) || !has_tag(node.op, Tag::kNative);
  }
  return any_subgraph_node(node, trusts_strides);
}

}  // namespace

bool strides_matter(const Graph& graph, Value value) {
  std::vector<bool> reached(graph.num_values());
  reached[value.id] = true;
  for (const Node& node : graph.nodes()) {
    bool reads = false;
    for_each_operand_value(node, [&](Value operand) { reads |= reached[operand.id]; });
    if (!reads) continue;
    if (has_tag(node.op, Tag::kStrideSensitive) || trusts_strides(node)) return true;
    for (const Value output : node.outputs) {
      if (output) reached[output.id] = true;
    }
  }
  return false;
}

}  // namespace diptych::detail
