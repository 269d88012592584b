#include "diptych/passes/equal_nodes.h"

#include <algorithm>

#include "diptych/graph/identical.h"
#include "diptych/graph/operand.h"

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

size_t hash_of(const NodeInTerms& candidate) {
  const Op& op = candidate.node->op;
  size_t hash = op.is_hop() ? std::hash<const void*>{}(&op.hop()) : std::hash<c10::OperatorHandle>{}(op.handle());
  for (const auto& operand : candidate.operands) hash = mix(hash, hash_operand(operand));
  return hash;
}

bool same_metas(const Graph& left_graph, const Node& left, const Graph& right_graph, const Node& right) {
  return std::equal(left.outputs.begin(), left.outputs.end(), right.outputs.begin(), right.outputs.end(),
                    [&](Value a, Value b) { return a && b ? left_graph.meta(a) == right_graph.meta(b) : !a && !b; });
}

// A recomputed node is placed so that its result need not live from one region's backward to the next, and a node's
// mark or name says what is saved. Neither concerns nodes that autograd recorded.
bool same_checkpoint(const Provenance& left, const Provenance& right) {
  return left.phase == Phase::kBackward ||
         (left.region == right.region && left.marks == right.marks && left.residual_name == right.residual_name);
}

bool same_subgraphs(const Node& left, const Node& right) {
  return std::equal(left.subgraphs.begin(), left.subgraphs.end(), right.subgraphs.begin(), right.subgraphs.end(),
                    [](const auto& a, const auto& b) { return a == b || (a && b && same_but_origins(*a, *b)); });
}

// All but the metadata of the results, which the graphs hold.
bool are_equal(const NodeInTerms& left, const NodeInTerms& right) {
  return left.node->op == right.node->op && left.node->grad_enabled == right.node->grad_enabled &&
         left.node->provenance.phase == right.node->provenance.phase &&
         left.node->provenance.own_derivative == right.node->provenance.own_derivative &&
         same_checkpoint(left.node->provenance, right.node->provenance) && same_subgraphs(*left.node, *right.node) &&
         std::equal(left.operands.begin(), left.operands.end(), right.operands.begin(), right.operands.end(),
                    [](const Operand& a, const Operand& b) { return identical(a, b); });
}

}  // namespace

const Node* EqualNodes::find(const Graph& graph, const NodeInTerms& node) const {
  const auto bucket = by_hash_.find(hash_of(node));
  if (bucket == by_hash_.end()) return nullptr;
  for (const Known& known : bucket->second) {
    if (are_equal(known.node, node) && same_metas(*known.graph, *known.node.node, graph, *node.node)) {
      return known.node.node;
    }
  }
  return nullptr;
}

void EqualNodes::add(const Graph& graph, NodeInTerms node) {
  const size_t hash = hash_of(node);
  by_hash_[hash].push_back({&graph, std::move(node)});
}

}  // namespace diptych::detail
