#include "diptych/passes/fold_constants.h"

#include <algorithm>

#include "diptych/base/check.h"
#include "diptych/graph/map_sizes.h"
#include "diptych/graph/rewrite.h"
#include "diptych/ops/tags.h"
#include "diptych/passes/storage_roots.h"

namespace diptych::detail {
namespace {

/// Which nodes fold, and which of their results the rest of the graph reads.
struct Folding {
  std::vector<bool> folds;      ///< per node
  std::vector<Value> frontier;  ///< folded results that the remaining nodes read, in order
};

// Whether a node gives the same at all times. What an operator of a library reads besides its operands isn't known.
bool is_constant(const Node& node) {
  return !node.op.is_hop() && has_tag(node.op, Tag::kNative) && !has_effect(node) && !has_dynamic_sizes(node);
}

// Another device than the CPU may not be there while a graph is made.
bool is_small_and_on_host(const Graph& graph, const Node& node, int64_t max_bytes) {
  return std::all_of(node.outputs.begin(), node.outputs.end(), [&](Value output) {
    if (!output) return true;
    const TensorMeta& meta = graph.meta(output);
    return meta.device.is_cpu() && meta.is_static() && meta.nbytes() <= max_bytes;
  });
}

Folding find_folding(const Graph& graph, const FoldConstantsOptions& options) {
  const auto roots = detail::storage_roots(graph);
  const auto escapes = detail::escaping_storages(graph, roots);
  std::vector<bool> is_known(graph.num_values());
  for (size_t i = 0; i < graph.num_values(); ++i) {
    is_known[i] = graph.info(Value{static_cast<int32_t>(i)}).kind == ValueInfo::Kind::kConstant;
  }
  Folding found{std::vector<bool>(graph.nodes().size()), {}};
  std::vector<bool> is_read(graph.num_values());
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    const Node& node = graph.nodes()[i];
    bool folds = is_constant(node) && is_small_and_on_host(graph, node, options.max_bytes);
    for_each_operand_value(node, [&](Value value) { folds = folds && is_known[value.id]; });
    for (const Value output : node.outputs) folds = folds && (!output || !escapes[roots[output.id].id]);
    found.folds[i] = folds;
    for (const Value output : node.outputs) {
      if (output) is_known[output.id] = folds;
    }
    if (!folds) for_each_operand_value(node, [&](Value value) { is_read[value.id] = true; });
  }
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    for (const Value output : graph.nodes()[i].outputs) {
      if (found.folds[i] && output && is_read[output.id]) found.frontier.push_back(output);
    }
  }
  return found;
}

}  // namespace

Graph fold_constants(const Graph& graph, const Evaluator& evaluator, const FoldConstantsOptions& options) {
  const auto folding = find_folding(graph, options);
  if (folding.frontier.empty()) return graph;
  std::vector<Slot> slots(folding.frontier.size(), Slot{SlotKind::kOutput, "constant"});
  const auto folded = evaluator(extract(graph, "constants", {}, {}, folding.frontier, std::move(slots)));
  DIPTYCH_ASSERT(folded.size() == folding.frontier.size(), "the evaluator returned {} tensors for {} outputs",
                 folded.size(), folding.frontier.size());
  Rewriter rewriter(graph);
  rewriter.copy_inputs();
  for (size_t i = 0; i < folded.size(); ++i) {
    rewriter.map(folding.frontier[i], rewriter.graph().add_constant(folded[i]));
  }
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    if (!folding.folds[i]) rewriter.copy_node(graph.nodes()[i]);
  }
  return rewriter.finish();
}

}  // namespace diptych::detail
