#include "diptych/passes/joint_analysis.h"

#include <algorithm>

#include "diptych/base/error.h"
#include "diptych/ops/tags.h"
#include "diptych/passes/storage_roots.h"

namespace diptych::detail {
std::vector<Value> sorted_unique(std::vector<Value> values) {
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  return values;
}

JointAnalysis::JointAnalysis(const Joint& joint) : joint_(joint) {
  const auto& layout = joint.layout;
  DIPTYCH_ASSERT(graph().inputs().size() == layout.num_primals() + layout.num_tangents &&
                     graph().outputs().size() >= layout.num_forward_outputs(),
                 "joint graph '{}' has {} inputs and {} outputs, which its layout does not fit", graph().name(),
                 graph().inputs().size(), graph().outputs().size());
  find_places();
  find_roots();
}

std::vector<bool> JointAnalysis::needed_by_forward_outputs() const {
  const auto& nodes = graph().nodes();
  std::vector<bool> needed_value(graph().num_values());
  for (size_t i = 0; i < joint_.layout.num_forward_outputs(); ++i) {
    if (graph().outputs()[i]) needed_value[graph().outputs()[i].id] = true;
  }
  std::vector<bool> needed(nodes.size());
  for (size_t i = nodes.size(); i-- > 0;) {
    for (const Value output : nodes[i].outputs) needed[i] = needed[i] || (output && needed_value[output.id]);
    if (needed[i]) for_each_operand_value(nodes[i], [&](Value value) { needed_value[value.id] = true; });
  }
  return needed;
}

// A node that autograd recorded with an effect, a random draw say, happens in the backward pass and nowhere else; what
// reads its result follows it. Of several tangents, some may be undefined: then autograd is asked for another backward,
// which shares the nodes of the forward and no others, so that nothing that autograd recorded can be saved.
void JointAnalysis::find_places() {
  const auto in_forward = needed_by_forward_outputs();
  const bool has_variants = joint_.layout.num_tangents > 1;
  late_.assign(graph().num_values(), false);
  for (size_t i = joint_.layout.num_primals(); i < graph().inputs().size(); ++i) late_[graph().inputs()[i].id] = true;
  for (size_t i = 0; i < graph().nodes().size(); ++i) {
    const Node& node = graph().nodes()[i];
    bool is_late = node.provenance.phase == Phase::kBackward && !in_forward[i] && (has_variants || has_effect(node));
    for_each_operand_value(node, [&](Value value) { is_late = is_late || late_[value.id]; });
    DIPTYCH_ASSERT(!is_late || !in_forward[i], "a forward output of joint graph '{}' depends on a tangent through {}",
                   graph().name(), node.op.name());
    const bool is_forward = in_forward[i] || node.provenance.phase == Phase::kForward;
    places_.push_back(is_late ? Place::kBackward : is_forward ? Place::kForward : Place::kEither);
    for (const Value output : node.outputs) {
      if (output && is_late) late_[output.id] = true;
    }
  }
}

void JointAnalysis::find_roots() {
  roots_ = storage_roots(graph());
  returned_.assign(graph().num_values(), false);
  for (size_t i = 0; i < joint_.layout.num_outputs; ++i) {
    if (const Value output = graph().outputs()[i]) returned_[roots_[output.id].id] = true;
  }
}

bool JointAnalysis::is_primal(Value value) const {
  return graph().info(value).kind == ValueInfo::Kind::kInput && !late_[value.id];
}

bool JointAnalysis::is_constant(Value value) const { return graph().info(value).kind == ValueInfo::Kind::kConstant; }

std::vector<Value> JointAnalysis::required(bool either_is_late) const {
  const auto& nodes = graph().nodes();
  std::vector<bool> live(graph().num_values());
  std::vector<Value> found;
  const auto runs_in_backward = [&](Value value) {
    const auto& info = graph().info(value);
    if (info.kind != ValueInfo::Kind::kNode) return false;
    return places_[info.node] == Place::kBackward || (either_is_late && places_[info.node] == Place::kEither);
  };
  const auto read = [&](Value value) {
    if (runs_in_backward(value)) {
      live[value.id] = true;
    } else if (!late_[value.id] && !is_constant(value)) {
      found.push_back(value);
    }
  };
  for (size_t i = joint_.layout.num_forward_outputs(); i < graph().outputs().size(); ++i) {
    if (graph().outputs()[i]) read(graph().outputs()[i]);
  }
  for (size_t i = nodes.size(); i-- > 0;) {
    bool is_live = places_[i] == Place::kBackward && has_effect(nodes[i]);
    for (const Value output : nodes[i].outputs) is_live = is_live || (output && live[output.id]);
    if (is_live) for_each_operand_value(nodes[i], read);
  }
  return sorted_unique(std::move(found));
}

int64_t JointAnalysis::new_bytes(const std::vector<Value>& values) const {
  std::vector<Value> storages;
  for (const Value value : values) storages.push_back(root(value));
  int64_t bytes = 0;
  for (const Value storage : sorted_unique(std::move(storages))) {
    if (!is_primal(storage) && !is_constant(storage) && !is_returned(storage)) bytes += graph().meta(storage).nbytes();
  }
  return bytes;
}

}  // namespace diptych::detail
