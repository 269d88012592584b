#include "diptych/passes/merge_common_nodes.h"

#include <algorithm>
#include <unordered_map>

#include "diptych/graph/identical.h"
#include "diptych/graph/operand.h"
#include "diptych/graph/rewrite.h"
#include "diptych/ops/tags.h"
#include "diptych/passes/storage_roots.h"

namespace diptych::detail {
namespace {

size_t mix(size_t seed, size_t value) { return seed ^ (value + 0x9e3779b97f4a7c15ULL + (seed << 6U) + (seed >> 2U)); }

// Equal operands hash alike; operands that differ only in rare constants may too, and are then told apart by
// identical().
size_t hash_operand(const Operand& operand) {
  size_t hash = operand.index();
  if (const auto* value = std::get_if<Value>(&operand)) return mix(hash, static_cast<size_t>(value->id));
  if (const auto* list = std::get_if<ValueList>(&operand)) {
    for (const Value value : *list) hash = mix(hash, static_cast<size_t>(value.id));
  } else if (const auto* constant = std::get_if<c10::IValue>(&operand)) {
    if (constant->isInt()) return mix(hash, static_cast<size_t>(constant->toInt()));
    if (constant->isBool()) return mix(hash, constant->toBool() ? 1 : 2);
    if (constant->isIntList()) {
      for (const int64_t number : constant->toIntVector()) hash = mix(hash, static_cast<size_t>(number));
    }
  }
  return hash;
}

/// A node of the source with its operands in terms of the new graph.
struct Candidate {
  const Node* node;
  c10::SmallVector<Operand, 4> operands;

  size_t hash() const {
    size_t hash = node->op.is_hop() ? std::hash<const void*>{}(&node->op.hop())
                                    : std::hash<c10::OperatorHandle>{}(node->op.handle());
    for (const auto& operand : operands) hash = mix(hash, hash_operand(operand));
    return hash;
  }
};

bool same_metas(const Graph& graph, const Node& left, const Node& right) {
  return std::equal(left.outputs.begin(), left.outputs.end(), right.outputs.begin(), right.outputs.end(),
                    [&](Value a, Value b) { return a && b ? graph.meta(a) == graph.meta(b) : !a && !b; });
}

// A recomputed node is placed so that its result need not live from one region's backward to the next, and a node's
// mark or name says what is saved. Neither concerns nodes that autograd recorded.
bool same_checkpoint(const Provenance& left, const Provenance& right) {
  return left.phase == Phase::kBackward ||
         (left.region == right.region && left.marks == right.marks && left.residual_name == right.residual_name);
}

bool are_common(const Graph& graph, const Candidate& left, const Candidate& right) {
  return left.node->op == right.node->op && left.node->grad_enabled == right.node->grad_enabled &&
         left.node->provenance.phase == right.node->provenance.phase &&
         same_checkpoint(left.node->provenance, right.node->provenance) &&
         left.node->subgraphs == right.node->subgraphs &&
         std::equal(left.operands.begin(), left.operands.end(), right.operands.begin(), right.operands.end(),
                    [](const Operand& a, const Operand& b) { return identical(a, b); }) &&
         same_metas(graph, *left.node, *right.node);
}

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
      Candidate candidate{&node, rewriter_.map_operands(node)};
      if (!may_merge(node)) {
        rewriter_.copy_node(node);
        continue;
      }
      auto& bucket = seen_[candidate.hash()];
      const auto found = std::find_if(bucket.begin(), bucket.end(),
                                      [&](const Candidate& other) { return are_common(graph_, other, candidate); });
      if (found == bucket.end()) {
        rewriter_.copy_node(node);
        bucket.push_back(std::move(candidate));
        continue;
      }
      for (size_t i = 0; i < node.outputs.size(); ++i) {
        if (node.outputs[i]) rewriter_.map(node.outputs[i], rewriter_[found->node->outputs[i]]);
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
  std::unordered_map<size_t, std::vector<Candidate>> seen_;
};

}  // namespace

Graph merge_common_nodes(const Graph& graph) {
  if (detail::has_mutation(graph)) return graph;
  return Merger(graph).run();
}

}  // namespace diptych::detail
