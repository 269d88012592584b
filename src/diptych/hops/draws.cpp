#include "diptych/hops/draws.h"

#include "diptych/base/check.h"
#include "diptych/graph/rewrite.h"
#include "diptych/ops/tags.h"
#include "diptych/trace/location.h"

namespace diptych::detail {
namespace {

std::vector<size_t> drawing_nodes(const Graph& body) {
  std::vector<size_t> indices;
  for (size_t i = 0; i < body.nodes().size(); ++i) {
    if (draws_random(body.nodes()[i])) indices.push_back(i);
  }
  return indices;
}

// A sampler's derivative is zero; an operator that also computes with its operands would need a derivative of its own.
void check_samples_only(const Graph& body, const Node& node) {
  if (node.op.is_hop() || node.outputs.size() == 1) return;
  for (const Value output : node.outputs) {
    DIPTYCH_CHECK(!output || !body.meta(output).requires_grad,
                  "[hops] {} draws random numbers and computes with them in one operator, so a body that calls it "
                  "can't be differentiated; draw a mask with bernoulli and multiply instead",
                  detail::with_scope(node.op.name(), node.provenance.scope));
  }
}

// Returns the outputs of drawing nodes that are read by a node or are outputs of the body.
std::vector<Value> drawn_values(const Graph& body, const std::vector<size_t>& drawing) {
  std::vector<bool> is_read(body.num_values());
  for (const Node& node : body.nodes()) for_each_operand_value(node, [&](Value value) { is_read[value.id] = true; });
  for (const Value output : body.outputs()) is_read[output.id] = true;
  std::vector<Value> drawn;
  for (const size_t index : drawing) {
    check_samples_only(body, body.nodes()[index]);
    for (const Value output : body.nodes()[index].outputs) {
      if (output && is_read[output.id]) drawn.push_back(output);
    }
  }
  return drawn;
}

// Returns which carries the draws depend on, through any number of steps.
std::vector<bool> needed_carries(const Graph& body, const std::vector<size_t>& drawing, size_t num_carries) {
  std::vector<bool> needed(body.num_values());
  const auto need_operands = [&](const Node& node) {
    for_each_operand_value(node, [&](Value value) { needed[value.id] = true; });
  };
  for (const size_t index : drawing) need_operands(body.nodes()[index]);
  std::vector<bool> carries(num_carries);
  for (bool changed = true; changed;) {
    for (size_t i = body.nodes().size(); i-- > 0;) {
      const Node& node = body.nodes()[i];
      const auto is_needed = [&](Value output) { return output && needed[output.id]; };
      if (std::any_of(node.outputs.begin(), node.outputs.end(), is_needed)) need_operands(node);
    }
    changed = false;
    for (size_t i = 0; i < num_carries; ++i) {
      if (carries[i] || !needed[body.inputs()[i].id]) continue;
      carries[i] = changed = true;
      needed[body.outputs()[i].id] = true;
    }
  }
  return carries;
}

Graph make_draws(const Graph& body, size_t num_carries, const std::vector<size_t>& drawing,
                 const std::vector<Value>& drawn) {
  const auto needed = needed_carries(body, drawing, num_carries);
  std::vector<Value> outputs;
  std::vector<Slot> slots;
  for (size_t i = 0; i < num_carries; ++i) {
    outputs.push_back(needed[i] ? body.outputs()[i] : body.inputs()[i]);
    slots.push_back(body.output_slots()[i]);
  }
  for (size_t i = 0; i < drawn.size(); ++i) {
    outputs.push_back(drawn[i]);
    slots.push_back({SlotKind::kOutput, fmt::format("draw.{}", i)});
  }
  return extract(body, body.name() + ".draws", body.inputs(), body.input_slots(), outputs, slots, drawing);
}

Graph make_rest(const Graph& body, size_t position, const std::vector<Value>& drawn) {
  Rewriter rewriter(body);
  for (size_t i = 0; i <= body.inputs().size(); ++i) {
    if (i == position) {
      for (size_t k = 0; k < drawn.size(); ++k) {
        rewriter.add_input(drawn[k], {SlotKind::kArgument, fmt::format("draw.{}", k)});
      }
    }
    if (i < body.inputs().size()) rewriter.add_input(body.inputs()[i], body.input_slots()[i]);
  }
  for (const Node& node : body.nodes()) {
    if (!draws_random(node)) rewriter.copy_node(node);
  }
  return rewriter.finish();
}

}  // namespace

SplitDraws split_draws(const Graph& body, size_t num_carries, size_t position) {
  const auto drawing = drawing_nodes(body);
  const auto drawn = drawn_values(body, drawing);
  return {std::make_shared<const Graph>(make_draws(body, num_carries, drawing, drawn)),
          std::make_shared<const Graph>(make_rest(body, position, drawn)), drawn.size()};
}

}  // namespace diptych::detail
