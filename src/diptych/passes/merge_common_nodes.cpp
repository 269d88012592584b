#include "diptych/passes/merge_common_nodes.h"

#include <algorithm>
#include <unordered_map>

#include "diptych/graph/identical.h"
#include "diptych/graph/rewrite.h"
#include "diptych/ops/tags.h"
#include "diptych/passes/equal_nodes.h"
#include "diptych/passes/storage_roots.h"

namespace diptych::detail {
namespace {

class Merger {
 public:
  explicit Merger(const Graph& graph)
      : graph_(graph),
        rewriter_(graph),
        roots_(detail::storage_roots(graph)),
        escapes_(detail::escaping_storages(graph, roots_)),
        is_output_(graph.num_values()) {
    for (const Value output : graph.outputs()) {
      if (output) is_output_[output.id] = true;
    }
  }

  Graph run() {
    rewriter_.copy_inputs();
    find_equal_constants();
    for (const Node& node : graph_.nodes()) {
      map_equal_constants(node);
      detail::NodeInTerms candidate{&node, rewriter_.map_operands(node)};
      const Node* const found = may_merge(node) ? seen_.find(graph_, candidate) : nullptr;
      if (found == nullptr) {
        rewriter_.copy_node(node);
        if (may_merge(node)) seen_.add(graph_, std::move(candidate));
        continue;
      }
      for (size_t i = 0; i < node.outputs.size(); ++i) {
        if (node.outputs[i]) rewriter_.map(node.outputs[i], rewriter_[found->outputs[i]]);
      }
    }
    return rewriter_.finish();
  }

 private:
  // The results must belong to the graph alone: a tensor that leaves it, or is one of its outputs, has an identity.
  bool may_merge(const Node& node) const {
    if (has_effect(node)) return false;
    return std::none_of(node.outputs.begin(), node.outputs.end(), [&](Value output) {
      return output && (is_output_[output.id] || (roots_[output.id] == output && escapes_[output.id]));
    });
  }

  // Finds, for each constant, an earlier one with the same bytes. Outputs keep their own constants.
  void find_equal_constants() {
    std::vector<Value> firsts;
    for (size_t i = 0; i < graph_.num_values(); ++i) {
      const Value value{static_cast<int32_t>(i)};
      const auto& info = graph_.info(value);
      if (info.kind != ValueInfo::Kind::kConstant || escapes_[value.id]) continue;
      const auto& tensor = graph_.constants()[info.index];
      const auto same = std::find_if(firsts.begin(), firsts.end(), [&](Value other) {
        return identical_tensors(graph_.constants()[graph_.info(other).index], tensor);
      });
      if (same == firsts.end()) {
        firsts.push_back(value);
      } else {
        equal_constant_.emplace(value.id, *same);
      }
    }
  }

  void map_equal_constants(const Node& node) {
    if (equal_constant_.empty()) return;
    for_each_operand_value(node, [&](Value value) {
      const auto found = equal_constant_.find(value.id);
      if (found != equal_constant_.end()) rewriter_.map(value, rewriter_[found->second]);
    });
  }

  const Graph& graph_;
  Rewriter rewriter_;
  std::vector<Value> roots_;
  std::vector<bool> escapes_;
  std::vector<bool> is_output_;
  std::unordered_map<int32_t, Value> equal_constant_;
  detail::EqualNodes seen_;
};

}  // namespace

Graph merge_common_nodes(const Graph& graph) {
  if (detail::has_mutation(graph)) return graph;
  return Merger(graph).run();
}

}  // namespace diptych::detail
