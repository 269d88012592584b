#include "diptych/passes/decompose.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "diptych/base/check.h"
#include "diptych/graph/rewrite.h"
#include "diptych/ops/decompositions.h"
#include "diptych/ops/tags.h"

namespace diptych::detail {
namespace {

bool is_static(const Graph& graph, const Node& node) {
  bool all = true;
  for_each_operand_value(node, [&](Value value) { all = all && graph.meta(value).is_static(); });
  return all && std::none_of(node.operands.begin(), node.operands.end(), [](const Operand& operand) {
           return std::holds_alternative<Sizes>(operand) || std::holds_alternative<SizeExpr>(operand) ||
                  std::holds_alternative<SizeNumber>(operand);
         });
}

// Returns the result with memory of its own, as the kernel's: a rule may return an operand, or a view of one.
Value in_own_memory(Emitter& emitter, const Graph& graph, Value value, size_t first, const Node& node) {
  if (has_tag(node.op, Tag::kSharesStorage)) return value;
  Value base = value;
  const auto is_made_here = [&] {
    const auto& info = graph.info(base);
    return info.kind == ValueInfo::Kind::kNode && static_cast<size_t>(info.node) >= first;
  };
  while (is_made_here() && has_tag(graph.producer(base)->op, Tag::kSharesStorage)) {
    base = std::get<Value>(graph.producer(base)->operands[0]);
  }
  return is_made_here() ? value : emitter.call("aten.clone", {value});
}

// Returns the provenance of nodes inside the decomposition of a node. A policy that saves the node saves its results;
// the nodes inside are recomputed, like everything that the policy did not choose, and carry no name.
Provenance provenance_inside(Provenance from) {
  for (size_t depth = 0; depth < from.marks.depth(); ++depth) {
    if (from.marks.at(depth) == Rematerialize::kSave) from.marks.set(depth, Rematerialize::kRecompute);
  }
  from.residual_name = {};
  return from;
}

// Copies the marks and the name of the decomposed node to the node that makes a result and, along a chain of views, the
// marks to the node that makes the storage; nodes before `first` do not belong to the decomposition.
void mark_result(Graph& graph, Value result, size_t first, const Provenance& from) {
  for (Value value = result; value;) {
    const auto& info = graph.info(value);
    if (info.kind != ValueInfo::Kind::kNode || static_cast<size_t>(info.node) < first) return;
    const Node& node = graph.nodes()[info.node];
    Provenance provenance = node.provenance;
    provenance.marks = from.marks;
    if (value == result) provenance.residual_name = from.residual_name;
    const auto* base = has_tag(node.op, Tag::kSharesStorage) ? std::get_if<Value>(&node.operands[0]) : nullptr;
    const Value next = base == nullptr ? Value{} : *base;
    graph.set_provenance(info.node, provenance);
    value = next;
  }
}

// Returns the rule that a node is decomposed by; null if it stays.
const Decomposition* rule_for(const Graph& graph, const Node& node, const KeepsNode& keeps) {
  const auto* row = find_decomposition(node.op);
  return row == nullptr || !is_static(graph, node) || (keeps && keeps(graph, node)) ? nullptr : row;
}

// Whether the operands have several dtypes.
bool is_mixed(const Graph& graph, const Node& node) {
  std::optional<at::ScalarType> first;
  bool mixed = false;
  for_each_operand_value(node, [&](Value value) {
    const auto dtype = graph.meta(value).dtype;
    mixed = mixed || first.value_or(dtype) != dtype;
    first = dtype;
  });
  return mixed;
}

bool fits(const Emitter& emitter, const Graph& graph, const Node& node, const std::vector<Value>& results) {
  DIPTYCH_ASSERT(results.size() == node.outputs.size(), "{} decomposed to {} results, expected {}", node.op.name(),
                 results.size(), node.outputs.size());
  for (size_t i = 0; i < results.size(); ++i) {
    if (!node.outputs[i]) continue;
    const auto &wanted = graph.meta(node.outputs[i]), &got = emitter.meta(results[i]);
    const bool is_same = got.dtype == wanted.dtype && got.sizes == wanted.sizes;
    if (!is_same && is_mixed(graph, node)) return false;
    DIPTYCH_ASSERT(is_same, "{} decomposed to {}, expected {}", node.op.name(), type_string(got), type_string(wanted));
  }
  return true;
}

// The results of a rule; none where the node stays. Rules promote operands of several dtypes as arithmetic does, and
// kernels may take them in another way: such a node stays, and what was written for it is dead.
std::vector<Value> apply_rule(const Decomposition& rule, Emitter& emitter, const Graph& graph, const Node& node,
                              c10::ArrayRef<Operand> operands) {
  try {
    auto results = rule.rule(Call(emitter, node, operands));
    return results.empty() || fits(emitter, graph, node, results) ? results : std::vector<Value>();
  } catch (const c10::Error&) {
    if (!is_mixed(graph, node)) throw;
    return {};
  }
}

// Makes one round over the graph; sets `changed` if any node was decomposed.
Graph decompose_once(const Graph& graph, const KeepsNode& keeps, bool& changed) {
  Rewriter rewriter(graph);
  rewriter.copy_inputs();
  for (const Node& node : graph.nodes()) {
    const auto* row = rule_for(graph, node, keeps);
    if (row == nullptr) {
      rewriter.copy_node(node);
      continue;
    }
    const auto operands = rewriter.map_operands(node);
    Node like = node;
    like.provenance = provenance_inside(node.provenance);
    const size_t first = rewriter.graph().nodes().size();
    const Value grad_of = node.provenance.grad_of;
    like.provenance.grad_of = grad_of && rewriter.is_mapped(grad_of) ? rewriter[grad_of] : Value{};
    Emitter emitter(rewriter.graph(), like);
    const auto results = apply_rule(*row, emitter, graph, node, {operands.data(), operands.size()});
    if (results.empty()) {
      rewriter.copy_node(node);
      continue;
    }
    changed = true;
    for (size_t i = 0; i < results.size(); ++i) {
      if (!node.outputs[i]) continue;
      const auto& wanted = graph.meta(node.outputs[i]);
      const Value own = in_own_memory(emitter, rewriter.graph(), results[i], first, node);
      const Value value = emitter.with_strides(own, wanted);
      rewriter.graph().mutable_meta(value).requires_grad = wanted.requires_grad;
      mark_result(rewriter.graph(), value, first, node.provenance);
      rewriter.map(node.outputs[i], value);
    }
  }
  return rewriter.finish();
}

}  // namespace

Graph decompose(const Graph& graph, const KeepsNode& keeps) {
  Graph result = graph;
  const auto has_rule = [&](const Node& node) { return rule_for(result, node, keeps) != nullptr; };
  for (bool changed = true; changed && std::any_of(result.nodes().begin(), result.nodes().end(), has_rule);) {
    changed = false;
    result = decompose_once(result, keeps, changed);
  }
  return result;
}

}  // namespace diptych::detail
