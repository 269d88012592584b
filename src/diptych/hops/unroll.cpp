#include "diptych/hops/unroll.h"

#include <fmt/format.h>

#include "diptych/ops/emitter.h"

namespace diptych::detail {
namespace {

/// Copies a body into a graph again and again.
class Copier {
 public:
  Copier(const Graph& body, std::string name) : body_(body), graph_(std::move(name)), map_(body.num_values()) {
    for (size_t i = 0; i < body.num_values(); ++i) {
      const Value value{static_cast<int32_t>(i)};
      const auto& info = body.info(value);
      if (info.kind == ValueInfo::Kind::kConstant) map_[i] = graph_.add_constant(body.constants()[info.index]);
    }
  }

  Value add_input(size_t index, const std::string& prefix) {
    Slot slot = body_.input_slots()[index];
    slot.path = prefix + slot.path;
    return graph_.add_input(body_.meta(body_.inputs()[index]), std::move(slot));
  }
  void set(size_t input, Value value) { map_[body_.inputs()[input].id] = value; }
  Value output(size_t index) const { return map_[body_.outputs()[index].id]; }
  /// Returns output `index` as the carry of the next step, laid out as that step reads it.
  Value next_carry(size_t index) {
    const TensorMeta& wanted = body_.meta(body_.inputs()[index]);
    const Value value = output(index);
    if (graph_.meta(value).strides == wanted.strides) return value;
    static const Node like{Op::find("aten.clone"), {}, {}, {}, {}, {}};
    return Emitter(graph_, like, InternedString("unroll"))
        .call("aten.clone", {value, c10::IValue(at::MemoryFormat::Contiguous)});
  }

  void copy_nodes() {
    for (const Node& node : body_.nodes()) {
      Node copy = node;
      copy.outputs.clear();
      copy.provenance.grad_of = {};
      for (auto& operand : copy.operands) {
        if (auto* value = std::get_if<Value>(&operand); value != nullptr && *value) *value = map_[value->id];
        if (auto* list = std::get_if<ValueList>(&operand)) {
          for (Value& element : *list) element = element ? map_[element.id] : element;
        }
      }
      std::vector<std::optional<TensorMeta>> metas;
      for (const Value output : node.outputs) {
        metas.push_back(output ? std::optional(body_.meta(output)) : std::nullopt);
      }
      const auto& added = graph_.nodes()[graph_.add_node(std::move(copy), std::move(metas))];
      for (size_t i = 0; i < node.outputs.size(); ++i) {
        if (node.outputs[i]) map_[node.outputs[i].id] = added.outputs[i];
      }
    }
  }
  Graph& graph() { return graph_; }

 private:
  const Graph& body_;
  Graph graph_;
  std::vector<Value> map_;
};

}  // namespace

bool can_unroll(const Graph& body, size_t num_carries) {
  for (size_t i = 0; i < num_carries; ++i) {
    const TensorMeta& before = body.meta(body.inputs()[i]);
    const TensorMeta& after = body.meta(body.outputs()[i]);
    if (before.strides != after.strides && before.strides != contiguous_strides(before.sizes)) return false;
  }
  return true;
}

Graph unroll(const Graph& body, size_t num_carries, size_t num_slices, int64_t count) {
  Copier copier(body, fmt::format("{} x{}", body.name(), count));
  for (size_t i = 0; i < num_carries; ++i) copier.set(i, copier.add_input(i, ""));
  std::vector<std::vector<Value>> slices(count);
  for (int64_t k = 0; k < count; ++k) {
    for (size_t i = 0; i < num_slices; ++i) {
      slices[k].push_back(copier.add_input(num_carries + i, fmt::format("step{}.", k)));
    }
  }
  for (size_t i = num_carries + num_slices; i < body.inputs().size(); ++i) copier.set(i, copier.add_input(i, ""));
  std::vector<Value> stacks;
  std::vector<Slot> stack_slots;
  std::vector<Value> carries(num_carries);
  for (int64_t k = 0; k < count; ++k) {
    for (size_t i = 0; i < num_slices; ++i) copier.set(num_carries + i, slices[k][i]);
    copier.copy_nodes();
    for (size_t i = num_carries; i < body.outputs().size(); ++i) {
      stacks.push_back(copier.output(i));
      stack_slots.push_back({body.output_slots()[i].kind, fmt::format("step{}.{}", k, body.output_slots()[i].path)});
    }
    // All carries are computed before any is set: a step may exchange two.
    for (size_t i = 0; i < num_carries; ++i) carries[i] = copier.next_carry(i);
    for (size_t i = 0; i < num_carries; ++i) copier.set(i, carries[i]);
  }
  std::vector<Slot> slots(body.output_slots().begin(), body.output_slots().begin() + static_cast<int64_t>(num_carries));
  carries.insert(carries.end(), stacks.begin(), stacks.end());
  slots.insert(slots.end(), stack_slots.begin(), stack_slots.end());
  copier.graph().set_outputs(std::move(carries), std::move(slots));
  return std::move(copier.graph());
}

}  // namespace diptych::detail
