#include "diptych/passes/remove_needless_views.h"

#include <algorithm>

#include "diptych/graph/rewrite.h"
#include "diptych/ops/tags.h"

namespace diptych::detail {
namespace {

class Views {
 public:
  Views(const Graph& graph, const RemoveNeedlessViewsOptions& options)
      : graph_(graph), options_(options), is_output_(graph.num_values()) {
    for (const Value output : graph.outputs()) {
      if (output) is_output_[output.id] = true;
    }
  }

  // The nearest tensor up the chain of views that equals the result of `node` in everything, or none.
  Value equal_of(const Node& node) const {
    if (node.outputs.size() != 1 || !node.outputs[0] || is_output_[node.outputs[0].id]) return {};
    const auto& wanted = graph_.meta(node.outputs[0]);
    for (const Node* view = &node; view != nullptr;) {
      const Value base = base_of(*view);
      if (!base) return {};
      const auto& meta = graph_.meta(base);
      if (meta.sizes == wanted.sizes && meta.strides == wanted.strides) return base;
      view = graph_.producer(base);
    }
    return {};
  }

 private:
  // The value that `node` views element for element; none if it does something else, or must stay.
  Value base_of(const Node& node) const {
    if (!has_tag(node.op, Tag::kShapeView) || node.outputs.size() != 1 || !node.outputs[0]) return {};
    const auto* base = std::get_if<Value>(&node.operands[0]);
    if (base == nullptr || !*base) return {};
    const auto& from = graph_.meta(*base);
    const auto& to = graph_.meta(node.outputs[0]);
    const bool stops = has_tag(node.op, Tag::kStopsGradient) || (!node.grad_enabled && from.requires_grad);
    if (options_.keep_gradient_stops && stops) return {};
    const bool keeps_elements = from.is_static() ? from.numel() == to.numel() : from.sizes == to.sizes;
    return from.dtype == to.dtype && keeps_elements ? *base : Value{};
  }

  const Graph& graph_;
  const RemoveNeedlessViewsOptions& options_;
  std::vector<bool> is_output_;
};

}  // namespace

Graph remove_needless_views(const Graph& graph, const RemoveNeedlessViewsOptions& options) {
  const Views views(graph, options);
  std::vector<Value> equal;
  for (const Node& node : graph.nodes()) equal.push_back(views.equal_of(node));
  if (std::none_of(equal.begin(), equal.end(), [](Value same) { return static_cast<bool>(same); })) return graph;
  Rewriter rewriter(graph);
  rewriter.copy_inputs();
  for (size_t i = 0; i < equal.size(); ++i) {
    const Node& node = graph.nodes()[i];
    if (equal[i]) {
      rewriter.map(node.outputs[0], rewriter[equal[i]]);
    } else {
      rewriter.copy_node(node);
    }
  }
  return rewriter.finish();
}

}  // namespace diptych::detail
