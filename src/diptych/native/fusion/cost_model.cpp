#include "diptych/native/fusion/cost_model.h"

#include <algorithm>

#include "diptych/ops/cost.h"
#include "diptych/ops/tags.h"

namespace diptych::detail {

int64_t bytes_moved(const TensorMeta& meta) {
  int64_t elements = 1;
  for (size_t dim = 0; dim < meta.sizes.size(); ++dim) {
    if (meta.strides[dim].hint() != 0 || meta.sizes[dim].hint() == 0) elements *= meta.sizes[dim].hint();
  }
  return elements * static_cast<int64_t>(c10::elementSize(meta.dtype));
}

int64_t bytes_read(const Graph& graph, const Node& node, Value operand) {
  if (has_tag(node.op, Tag::kFactory)) return 0;
  const int64_t bytes = bytes_moved(graph.meta(operand));
  if (!has_tag(node.op, Tag::kGather)) return bytes;
  return std::min(bytes, bytes_moved(graph.meta(node.outputs[0])));
}

bool is_cheap_to_repeat(const Graph& graph, const Node& node) {
  if (has_tag(node.op, Tag::kSharesStorage)) return true;
  int64_t elements = 1;
  for (const Value output : node.outputs) elements = std::max(elements, graph.meta(output).numel());
  return cost(graph, node).flops <= elements;
}

// An operator of LibTorch is as fast as its kernel and is called with less ado. But it writes a large result into
// memory that the system hands out page by page, where a kernel has the pool's; and it computes erf and its like by
// parts.
bool is_worth_a_kernel(const Graph& graph, const Node& node) {
  if (!has_tag(node.op, Tag::kPointwise) || has_tag(node.op, Tag::kGather)) return false;
  const TensorMeta& meta = graph.meta(node.outputs[0]);
  return bytes_moved(meta) >= kLargeResult || (meta.numel() >= kManyElements && !is_cheap_to_repeat(graph, node));
}

}  // namespace diptych::detail
