#include "diptych/passes/draw_first.h"

#include <fmt/format.h>
#include <algorithm>

#include "diptych/graph/rewrite.h"
#include "diptych/ops/emitter.h"
#include "diptych/ops/scan_nodes.h"
#include "diptych/ops/tags.h"
#include "diptych/passes/decompose.h"
#include "diptych/passes/remove_dead_nodes.h"

namespace diptych::detail {
namespace {

/// Note [Draws first]
/// An operator that computes with what it draws is decomposed into a draw and arithmetic. A draw that reads only the
/// sizes and strides of its operands gets empty tensors for them, and so depends on nothing. Such draws move in front
/// of all other nodes, in their order, but not in front of a draw that depends on elements, which stays where it is.
/// A scan whose body makes only draws that depend on nothing gets what they draw as further slices: another scan, of
/// draws alone and without operands, makes them in the order of the steps, and moves like any other draw. Its results
/// are as large as the masks of all steps together.

bool draws_without_operands(const Node& node) {
  if (!draws_random(node)) return false;
  bool has_operand = false;
  for_each_operand_value(node, [&](Value) { has_operand = true; });
  return !has_operand || has_tag(node.op, Tag::kDrawsOnly);
}

bool any_draws(const Graph& graph) { return std::any_of(graph.nodes().begin(), graph.nodes().end(), draws_random); }

// Copies a draw with empty tensors for its operands, which may not be made yet.
void copy_draw(Rewriter& rewriter, const Graph& graph, const Node& node) {
  Node like = node;
  like.provenance.grad_of = {};
  std::vector<std::pair<Value, Value>> replaced;
  for_each_operand_value(node, [&](Value value) {
    const TensorMeta& meta = graph.meta(value);
    const Value known = rewriter.is_mapped(value) ? rewriter[value] : Value{};
    replaced.emplace_back(value, known);
    Emitter emitter(rewriter.graph(), like, InternedString("draw_first"));
    rewriter.map(
        value, emitter.call("aten.empty_strided", {c10::IValue(meta.size_hints()), c10::IValue(meta.stride_hints()),
                                                   c10::IValue(meta.dtype), c10::IValue(), c10::IValue(meta.device)}));
  });
  rewriter.copy_node(node);
  for (auto pair = replaced.rbegin(); pair != replaced.rend(); ++pair) rewriter.map(pair->first, pair->second);
}

// Moves draws without operands to the front, or behind the last draw before them that has some.
Graph move_draws(const Graph& graph) {
  Rewriter rewriter(graph);
  rewriter.copy_inputs();
  const auto stays = [](const Node& node) { return draws_random(node) && !draws_without_operands(node); };
  for (auto begin = graph.nodes().begin(); begin != graph.nodes().end();) {
    const auto end = std::find_if(begin, graph.nodes().end(), stays);
    for (auto node = begin; node != end; ++node) {
      if (draws_random(*node)) copy_draw(rewriter, graph, *node);
    }
    for (auto node = begin; node != end; ++node) {
      if (!draws_random(*node)) rewriter.copy_node(*node);
    }
    begin = end;
    if (begin != graph.nodes().end()) rewriter.copy_node(*begin++);
  }
  return rewriter.finish();
}

// A body in which all draws come first, and of these the values that the rest reads or returns.
struct DrawingBody {
  Graph graph;
  size_t num_first = 0;  // nodes that draw, or make operands for draws
  std::vector<Value> drawn;
};

std::optional<DrawingBody> find_draws(const Graph& original) {
  DrawingBody body{.graph = draw_first(original)};
  const auto& nodes = body.graph.nodes();
  const auto last = std::find_if(nodes.rbegin(), nodes.rend(), draws_random);
  body.num_first = static_cast<size_t>(nodes.rend() - last);
  std::vector<bool> is_first(body.graph.num_values()), is_read(body.graph.num_values());
  bool depends = false;
  for (size_t i = 0; i < nodes.size(); ++i) {
    for_each_operand_value(nodes[i], [&](Value value) {
      depends = depends || (i < body.num_first && !is_first[value.id]);
      is_read[value.id] = is_read[value.id] || i >= body.num_first;
    });
    for (const Value output : nodes[i].outputs) {
      if (output) is_first[output.id] = i < body.num_first;
    }
  }
  if (depends) return std::nullopt;
  for (const Value output : body.graph.outputs()) {
    if (output) is_read[output.id] = true;
  }
  for (int32_t id = 0; id < static_cast<int32_t>(is_read.size()); ++id) {
    if (is_first[id] && is_read[id]) body.drawn.push_back({id});
  }
  return body;
}

std::vector<Slot> draw_slots(size_t count) {
  std::vector<Slot> slots;
  for (size_t i = 0; i < count; ++i) slots.push_back({SlotKind::kOutput, fmt::format("draw.{}", i)});
  return slots;
}

// The body with what is drawn as inputs from `position` on.
Graph without_draws(const DrawingBody& body, size_t position) {
  Rewriter rewriter(body.graph);
  for (size_t i = 0; i <= body.graph.inputs().size(); ++i) {
    for (size_t k = 0; i == position && k < body.drawn.size(); ++k) {
      rewriter.add_input(body.drawn[k], {SlotKind::kArgument, fmt::format("draw.{}", k)});
    }
    if (i < body.graph.inputs().size()) rewriter.add_input(body.graph.inputs()[i], body.graph.input_slots()[i]);
  }
  for (size_t i = body.num_first; i < body.graph.nodes().size(); ++i) rewriter.copy_node(body.graph.nodes()[i]);
  return rewriter.finish();
}

std::vector<Value> add_scan(Rewriter& rewriter, const Node& like, const std::vector<ValueList>& groups,
                            const ScanAttributes& attributes, const std::shared_ptr<const Graph>& body) {
  Node node = make_hop_node(scan_schema(), groups, scan_attributes(attributes), {body});
  const auto metas = scan_results(*body, groups[0].size(), attributes);
  node.returns = {static_cast<int32_t>(metas.size())};
  node.provenance = like.provenance;
  node.provenance.grad_of = {};
  node.provenance.origin = InternedString("draw_first");
  node.grad_enabled = like.grad_enabled;
  Graph& graph = rewriter.graph();
  const auto& outputs = graph.nodes()[graph.add_node(std::move(node), {metas.begin(), metas.end()})].outputs;
  return {outputs.begin(), outputs.end()};
}

// Writes a scan of the body's draws and a scan of the rest; returns false if a draw depends on what a step computes.
bool split_scan(Rewriter& rewriter, const Node& node) {
  const auto body = find_draws(*node.subgraphs[0]);
  if (!body) return false;
  auto attributes = ScanAttributes::of(HopAttributes::of(node));
  std::vector<size_t> first(body->num_first);
  for (size_t i = 0; i < first.size(); ++i) first[i] = i;
  const auto draws = std::make_shared<const Graph>(
      extract(body->graph, body->graph.name() + ".draws", {}, {}, body->drawn, draw_slots(body->drawn.size()), first));
  const ScanAttributes drawing{attributes.length, attributes.reverse};
  const auto stacks = add_scan(rewriter, node, {{}, {}, {}}, drawing, draws);

  std::vector<ValueList> groups{group_of(node, "init"), group_of(node, "xs"), group_of(node, "free")};
  for (ValueList& group : groups) {
    for (Value& value : group) value = rewriter[value];
  }
  const size_t num_carries = groups[0].size(), position = num_carries + groups[1].size();
  groups[1].insert(groups[1].end(), stacks.begin(), stacks.end());
  const auto rest = std::make_shared<const Graph>(without_draws(*body, position));
  const auto results = add_scan(rewriter, node, groups, attributes, rest);
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    const auto drawn = std::find(body->drawn.begin(), body->drawn.end(), body->graph.outputs()[i]);
    const bool is_stack = drawn != body->drawn.end() && i >= num_carries && !attributes.has_front(i - num_carries);
    if (node.outputs[i]) rewriter.map(node.outputs[i], is_stack ? stacks[drawn - body->drawn.begin()] : results[i]);
  }
  return true;
}

Graph split_scans(const Graph& graph) {
  Rewriter rewriter(graph);
  rewriter.copy_inputs();
  for (const Node& node : graph.nodes()) {
    const bool is_scan = node.op.is_hop() && &node.op.hop() == &scan_schema();
    if (is_scan && draws_random(node) && !draws_without_operands(node) && split_scan(rewriter, node)) continue;
    rewriter.copy_node(node);
  }
  return rewriter.finish();
}

}  // namespace

Graph draw_first(const Graph& graph) {
  if (!any_draws(graph)) return graph;
  const auto keeps = [](const Graph&, const Node& node) { return !draws_random(node); };
  return remove_dead_nodes(move_draws(split_scans(decompose(graph, keeps))));
}

}  // namespace diptych::detail
