#include "diptych/scan_passes/scan_edit.h"

#include <algorithm>

#include "diptych/base/check.h"
#include "diptych/graph/subgraphs.h"
#include "diptych/ops/batching.h"
#include "diptych/ops/tags.h"
#include "diptych/passes/storage_roots.h"

namespace diptych::detail {
namespace {

bool is_scan(const Node& node) { return node.op.is_hop() && &node.op.hop() == &scan_schema(); }

bool is_static(const Graph& graph) {
  for (size_t i = 0; i < graph.num_values(); ++i) {
    if (!graph.meta(Value{static_cast<int32_t>(i)}).is_static()) return false;
  }
  return true;
}

bool is_static(const Graph& graph, const Node& node) {
  bool found = true;
  for_each_operand_value(node, [&](Value value) { found = found && graph.meta(value).is_static(); });
  return found;
}

std::vector<Value> mapped(Rewriter& outer, ValueList values) {
  for (Value& value : values) value = outer[value];
  return values;
}

}  // namespace

// Outputs of a body do not escape, since whoever runs it copies them. Residuals do not either: sharing a storage makes
// them cheaper to save.
ScanEdit::Uses::Uses(const Graph& graph, bool is_top) : is_read(graph.num_values()), escapes(graph.num_values()) {
  const auto roots = storage_roots(graph);
  for (const Node& node : graph.nodes()) for_each_operand_value(node, [&](Value value) { is_read[value.id] = true; });
  for (size_t i = 0; i < graph.outputs().size(); ++i) {
    const Value output = graph.outputs()[i];
    if (!output) continue;
    is_read[output.id] = true;
    if (is_top && graph.output_slots()[i].kind != SlotKind::kResidual) escapes[roots[output.id].id] = true;
  }
}

ScanEdit::ScanEdit(const Graph& source, const Node& node, Rewriter& outer, InternedString origin, const Uses& uses)
    : source_(source), node_(node), body_(node.subgraphs[0]), outer_(outer), origin_(origin), uses_(uses) {
  attributes = ScanAttributes::of(HopAttributes::of(node));
  size_t next = 0;
  for (const Value value : mapped(outer, group_of(node, "init"))) {
    carries.push_back({value, body_->inputs()[next], body_->outputs()[next], body_->input_slots()[next],
                       body_->output_slots()[next], next});
    ++next;
  }
  const auto take = [&](std::string_view group, std::vector<Input>& inputs) {
    for (const Value value : mapped(outer, group_of(node, group))) {
      inputs.push_back({value, body_->inputs()[next], body_->input_slots()[next]});
      ++next;
    }
  };
  take("xs", slices);
  take("free", free);
  for (size_t i = carries.size(); i < body_->outputs().size(); ++i) {
    Stack stack{body_->outputs()[i], body_->output_slots()[i], i};
    const size_t index = i - carries.size();
    if (attributes.has_front(index)) stack.front = carries[attributes.fronts[index]].in;
    stacks.push_back(std::move(stack));
  }
}

void ScanEdit::set_body(Graph body) {
  const auto old_inputs = body_->inputs();
  body_ = std::make_shared<const Graph>(std::move(body));
  const auto input = [&](Value old) {
    const auto found = std::find(old_inputs.begin(), old_inputs.end(), old);
    return body_->inputs()[found - old_inputs.begin()];
  };
  for (size_t i = 0; i < carries.size(); ++i) {
    carries[i].in = input(carries[i].in);
    carries[i].out = body_->outputs()[i];
  }
  for (Input& slice : slices) slice.in = input(slice.in);
  for (Input& operand : free) operand.in = input(operand.in);
  for (size_t i = 0; i < stacks.size(); ++i) {
    stacks[i].value = body_->outputs()[carries.size() + i];
    if (stacks[i].front) stacks[i].front = input(stacks[i].front);
  }
}

Emitter ScanEdit::emitter(const Node& like) {
  auto& kept = likes_.emplace_back(std::make_unique<Node>(node_));
  if (&like != &node_) {
    kept->provenance.scope = like.provenance.scope;
    kept->grad_enabled = node_.grad_enabled && like.grad_enabled;
  }
  // grad_of names a value of the source graph, so it is cleared.
  kept->provenance.grad_of = {};
  return Emitter(outer_.graph(), *kept, origin_);
}

std::vector<Value> ScanEdit::copy_outside(const Node& like, const std::function<Value(Value)>& find) {
  Node copy = like;
  copy.outputs.clear();
  copy.provenance.grad_of = {};
  copy.provenance.phase = node_.provenance.phase;
  copy.provenance.origin = origin_;
  copy.grad_enabled = node_.grad_enabled && like.grad_enabled;
  for (auto& operand : copy.operands) {
    if (auto* value = std::get_if<Value>(&operand); value != nullptr && *value) *value = find(*value);
    if (auto* list = std::get_if<ValueList>(&operand)) {
      for (Value& element : *list) element = element ? find(element) : element;
    }
  }
  std::vector<std::optional<TensorMeta>> metas;
  for (const Value output : like.outputs) {
    metas.push_back(output ? std::optional(body_->meta(output)) : std::nullopt);
  }
  auto& graph = outer_.graph();
  const auto& outputs = graph.nodes()[graph.add_node(std::move(copy), std::move(metas))].outputs;
  return {outputs.begin(), outputs.end()};
}

std::shared_ptr<const Graph> ScanEdit::write_body() {
  std::vector<Value> inputs, outputs;
  std::vector<Slot> input_slots, output_slots;
  const auto add_input = [&](Value value, const Slot& slot) {
    inputs.push_back(value);
    input_slots.push_back(slot);
  };
  for (const Carry& carry : carries) add_input(carry.in, carry.in_slot);
  for (const Input& slice : slices) add_input(slice.in, slice.slot);
  for (const Input& operand : free) add_input(operand.in, operand.slot);
  for (const Carry& carry : carries) {
    outputs.push_back(carry.out);
    output_slots.push_back(carry.out_slot);
  }
  for (const Stack& stack : stacks) {
    outputs.push_back(stack.value);
    output_slots.push_back(stack.slot);
  }
  std::vector<size_t> effects;
  for (size_t i = 0; i < body_->nodes().size(); ++i) {
    if (has_effect(body_->nodes()[i])) effects.push_back(i);
  }
  return std::make_shared<const Graph>(
      extract(*body_, body_->name(), inputs, std::move(input_slots), outputs, std::move(output_slots), effects));
}

ScanAttributes ScanEdit::settled_attributes() const {
  ScanAttributes settled = attributes;
  settled.fronts.clear();
  for (const Stack& stack : stacks) {
    const auto found = std::find_if(carries.begin(), carries.end(),
                                    [&](const Carry& carry) { return stack.front && carry.in == stack.front; });
    DIPTYCH_ASSERT(!stack.front || found != carries.end(), "a stack has a front that is not a carry");
    settled.fronts.push_back(stack.front ? found - carries.begin() : kNoFront);
  }
  return settled;
}

ScanEdit::Results ScanEdit::write() {
  auto body = write_body();
  // A node without results would be taken for one that has effects, and a body that returns nothing can't be captured
  // again.
  if (body->outputs().empty() && body->nodes().empty()) return {};
  const ScanAttributes settled = settled_attributes();
  const auto results = scan_results(*body, carries.size(), settled);
  return write_node(scan_schema(), scan_attributes(settled), std::move(body), results);
}

ScanEdit::Results ScanEdit::write_blocked(std::shared_ptr<const Graph> body, int64_t block) {
  const ScanAttributes settled = settled_attributes();
  const auto results = blocked_scan_results(*body, carries.size(), settled);
  return write_node(blocked_scan_schema(), blocked_scan_attributes(settled, block), std::move(body), results);
}

ScanEdit::Results ScanEdit::write_node(const HopSchema& hop, const HopAttributes& written,
                                       std::shared_ptr<const Graph> body, const std::vector<TensorMeta>& results) {
  std::vector<ValueList> groups(3);
  for (const Carry& carry : carries) groups[0].push_back(carry.outer);
  for (const Input& slice : slices) groups[1].push_back(slice.outer);
  for (const Input& operand : free) groups[2].push_back(operand.outer);
  Node scan = make_hop_node(hop, groups, written, {std::move(body)});
  scan.provenance = node_.provenance;
  scan.provenance.grad_of = {};
  scan.grad_enabled = node_.grad_enabled;
  std::vector<std::optional<TensorMeta>> metas(results.begin(), results.end());
  const auto set_requires_grad = [&](size_t index, std::optional<size_t> result) {
    metas[index]->requires_grad =
        result ? result_meta(*result).requires_grad : metas[index]->requires_grad && node_.grad_enabled;
  };
  for (size_t i = 0; i < carries.size(); ++i) set_requires_grad(i, carries[i].result);
  for (size_t i = 0; i < stacks.size(); ++i) set_requires_grad(carries.size() + i, stacks[i].result);
  scan.returns.assign(metas.size(), -1);
  auto& graph = outer_.graph();
  const auto& made = graph.nodes()[graph.add_node(std::move(scan), std::move(metas))].outputs;
  const auto middle = made.begin() + carries.size();
  return {{made.begin(), middle}, {middle, made.end()}};
}

void ScanEdit::map(size_t result, Value value, bool is_own) {
  if (!node_.outputs[result]) return;
  Emitter writer = emitter();
  Value laid_out = with_layout(writer, value, result_meta(result));
  if (laid_out == value && !is_own && escapes(result)) laid_out = writer.call("aten.clone", {value});
  outer_.map(node_.outputs[result], laid_out);
}

void ScanEdit::map_all(const Results& results) {
  for (size_t i = 0; i < carries.size(); ++i) map(carries[i].result, results.carries[i], true);
  for (size_t i = 0; i < stacks.size(); ++i) {
    if (stacks[i].result) map(*stacks[i].result, results.stacks[i], true);
  }
}

Value with_layout(Emitter& emitter, Value value, const TensorMeta& meta) {
  const TensorMeta& got = emitter.meta(value);
  if (got.strides == meta.strides) return value;
  if (meta.strides == contiguous_strides(meta.sizes)) {
    return emitter.call("aten.clone", {value, c10::IValue(at::MemoryFormat::Contiguous)});
  }
  const Value empty = emitter.call(
      "aten.empty_strided", {c10::IValue(meta.size_hints()), c10::IValue(meta.stride_hints()), c10::IValue(meta.dtype),
                             c10::IValue(), c10::IValue(meta.device), c10::IValue()});
  return emitter.call("aten.copy", {empty, value});
}

bool has_scan(const Node& node) {
  return is_scan(node) || any_subgraph_node(node, [](const Node& inner) { return has_scan(inner); });
}

bool has_scan(const Graph& graph) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(), [](const Node& node) { return has_scan(node); });
}

namespace {

/// Rewrites the scans of one graph; returns nullopt if nothing changed.
std::optional<Graph> rewrite(const Graph& graph, InternedString origin, const ScanPass& pass, bool is_top) {
  const ScanEdit::Uses uses(graph, is_top);
  Rewriter rewriter(graph);
  rewriter.copy_inputs();
  bool changed = false;
  for (const Node& node : graph.nodes()) {
    Node copy = node;
    bool inner_changed = false;
    for (auto& subgraph : copy.subgraphs) {
      if (!has_scan(*subgraph)) continue;
      if (auto result = rewrite(*subgraph, origin, pass, /*is_top=*/false)) {
        subgraph = std::make_shared<const Graph>(std::move(*result));
        inner_changed = true;
      }
    }
    changed = changed || inner_changed;
    if (is_scan(node) && is_static(graph, node) && is_static(*copy.subgraphs[0])) {
      ScanEdit edit(graph, copy, rewriter, origin, uses);
      if (pass(edit)) {
        changed = true;
        continue;
      }
    }
    rewriter.copy_node(copy);
  }
  if (!changed) return std::nullopt;
  return rewriter.finish();
}

}  // namespace

Graph rewrite_scans(const Graph& graph, std::string_view origin, const ScanPass& pass) {
  if (!has_scan(graph)) return graph;
  auto result = rewrite(graph, InternedString(origin), pass, /*is_top=*/true);
  if (result) return std::move(*result);
  return graph;
}

}  // namespace diptych::detail
