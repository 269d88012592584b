#include "diptych/passes/remove_needless_copies.h"

#include <algorithm>

#include "diptych/graph/rewrite.h"
#include "diptych/ops/tags.h"
#include "diptych/passes/storage_roots.h"

namespace diptych::detail {
namespace {

bool is_same_layout(const TensorMeta& left, const TensorMeta& right) {
  return left.dtype == right.dtype && left.device == right.device && left.sizes == right.sizes &&
         left.strides == right.strides;
}

/// Decides which copies are needed, from the last node to the first: whether the backward reads a tensor depends on
/// whether copies of it that the backward reads are removed.
class Copies {
 public:
  Copies(const Graph& graph, const RemoveNeedlessCopiesOptions& options)
      : graph_(graph),
        options_(options),
        roots_(detail::storage_roots(graph)),
        escapes_(detail::escaping_storages(graph, roots_)),
        read_in_backward_(graph.num_values()),
        copied_(graph.nodes().size()) {
    for (size_t i = graph.nodes().size(); i-- > 0;) {
      const Node& node = graph.nodes()[i];
      copied_[i] = find_copied(node);
      const bool is_read = copied_[i] && read_in_backward_[node.outputs[0].id];
      if (node.provenance.phase != Phase::kBackward && !is_read) continue;
      for_each_operand_value(node, [&](Value value) { read_in_backward_[roots_[value.id].id] = true; });
    }
  }

  bool any() const {
    return std::any_of(copied_.begin(), copied_.end(), [](Value copied) { return static_cast<bool>(copied); });
  }
  // The value that the node at `index` copies needlessly, or none.
  Value copied_by(size_t index) const { return copied_[index]; }

 private:
  Value find_copied(const Node& node) const {
    if (!has_tag(node.op, Tag::kCopy) || has_tag(node.op, Tag::kSharesStorage) || node.outputs.size() != 1) return {};
    const auto* source = std::get_if<Value>(&node.operands[0]);
    const Value copy = node.outputs[0];
    if (source == nullptr || !*source || !copy || num_tensor_operands(node) != 1) return {};
    if (!is_same_layout(graph_.meta(*source), graph_.meta(copy)) || escapes_[copy.id]) return {};
    if (may_be_lazy(*source)) return {};
    if (options_.keep_gradient_stops && !node.grad_enabled && graph_.meta(*source).requires_grad) return {};
    // The caller may write to inputs and outputs between the forward and the backward; eager's backward reads the copy.
    const Value root = roots_[source->id];
    const bool is_callers = graph_.info(root).kind == ValueInfo::Kind::kInput || escapes_[root.id];
    const bool outlives_call = node.provenance.phase == Phase::kForward && read_in_backward_[copy.id];
    return is_callers && outlives_call ? Value{} : *source;
  }

  // Whether the elements may be lazily conjugated or negated in memory: some views then need the copy, which holds them
  // as they are. A caller's complex tensor may be lazy.
  bool may_be_lazy(Value value) const {
    const Node* node = graph_.producer(value);
    for (; node != nullptr && has_tag(node->op, Tag::kView); node = graph_.producer(value)) {
      if (has_tag(node->op, Tag::kLazyView)) return true;
      const auto* base = std::get_if<Value>(&node->operands[0]);
      if (base == nullptr) return false;
      value = *base;
    }
    return graph_.info(value).kind == ValueInfo::Kind::kInput && c10::isComplexType(graph_.meta(value).dtype);
  }

  static int num_tensor_operands(const Node& node) {
    int count = 0;
    for_each_operand_value(node, [&](Value) { ++count; });
    return count;
  }

  const Graph& graph_;
  const RemoveNeedlessCopiesOptions& options_;
  std::vector<Value> roots_;
  std::vector<bool> escapes_;
  std::vector<bool> read_in_backward_;
  std::vector<Value> copied_;
};

}  // namespace

Graph remove_needless_copies(const Graph& graph, const RemoveNeedlessCopiesOptions& options) {
  if (detail::has_mutation(graph)) return graph;
  const Copies copies(graph, options);
  if (!copies.any()) return graph;
  Rewriter rewriter(graph);
  rewriter.copy_inputs();
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    const Node& node = graph.nodes()[i];
    if (const Value source = copies.copied_by(i)) {
      rewriter.map(node.outputs[0], rewriter[source]);
    } else {
      rewriter.copy_node(node);
    }
  }
  return rewriter.finish();
}

}  // namespace diptych::detail
