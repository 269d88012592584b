#include "diptych/passes/joint_analysis.h"

#include <algorithm>

#include "diptych/base/check.h"
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
                 "joint graph '{}' has {} inputs and {} outputs, which do not match its layout", graph().name(),
                 graph().inputs().size(), graph().outputs().size());
  find_places();
  find_roots();
  find_marks();
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

// A node with an effect that autograd recorded, such as a random draw, runs in the backward and nowhere else, and so do
// the nodes that read its result. If there are several tangents, some may be undefined; autograd is then asked for
// another backward, which shares only the nodes of the forward, so nothing that autograd recorded can be saved.
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
    places_.push_back(is_late ? JointPlace::kBackward : is_forward ? JointPlace::kForward : JointPlace::kEither);
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

// A reader that autograd recorded belongs to the region of the forward node whose gradient it takes part in.
void JointAnalysis::find_marks() {
  must_recompute_.assign(graph().nodes().size(), false);
  leaves_region_.assign(graph().num_values(), false);
  for (size_t i = 0; i < graph().nodes().size(); ++i) {
    const Node& node = graph().nodes()[i];
    const bool is_forward = places_[i] == JointPlace::kForward;
    if (is_forward) {
      const auto decision = node.provenance.marks.decision();
      has_marks_ = has_marks_ || decision != Rematerialize::kAuto;
      must_recompute_[i] = decision == Rematerialize::kRecompute && !has_effect(node);
    }
    if (!has_marks_ || places_[i] == JointPlace::kBackward) continue;
    for_each_operand_value(node, [&](Value value) {
      const auto maker = graph().info(value).node;
      if (maker < 0 || !must_recompute_[maker]) return;
      if (is_forward) {
        leaves_region_[value.id] = leaves_region_[value.id] || is_outside(value, node);
      } else {
        must_recompute_[i] = true;
      }
    });
  }
}

bool JointAnalysis::must_save(size_t node) const {
  return places_[node] == JointPlace::kForward &&
         graph().nodes()[node].provenance.marks.decision() == Rematerialize::kSave;
}

// Whether `reader` is outside the region that decided about the maker of `value`.
bool JointAnalysis::is_outside(Value value, const Node& reader) const {
  const Provenance& maker = graph().producer(value)->provenance;
  const auto depth = maker.marks.deciding_depth();
  return depth && common_region_depth(maker.region, reader.provenance.region) <= *depth;
}

// Walks from the gradients to the values that they need. `is_saved(node, value)` returns whether a value of a node
// about which no mark has decided is saved; otherwise it is computed in the backward. It also decides about values that
// leave their region if only the region itself needs them.
template <class IsSaved>
std::vector<Value> JointAnalysis::saved_if(const IsSaved& is_saved) const {
  const auto& nodes = graph().nodes();
  std::vector<bool> is_wanted(graph().num_values());
  std::vector<bool> is_wanted_outside(has_marks_ ? graph().num_values() : 0);
  std::vector<Value> saved;
  for (size_t i = joint_.layout.num_forward_outputs(); i < graph().outputs().size(); ++i) {
    if (graph().outputs()[i]) is_wanted[graph().outputs()[i].id] = true;
  }
  const auto is_kept = [&](size_t node, Value value) {
    if (must_recompute_[node]) return leaves_region(value) && (is_wanted_outside[value.id] || is_saved(node, value));
    return must_save(node) || has_effect(nodes[node]) || is_saved(node, value);
  };
  for (size_t i = nodes.size(); i-- > 0;) {
    const bool is_late = places_[i] == JointPlace::kBackward;
    bool runs = is_late && has_effect(nodes[i]);
    for (const Value output : nodes[i].outputs) {
      if (!output || !is_wanted[output.id]) continue;
      if (!is_late && is_kept(i, output)) {
        saved.push_back(output);
      } else {
        runs = true;
      }
    }
    if (!runs) continue;
    for_each_operand_value(nodes[i], [&](Value value) {
      is_wanted[value.id] = true;
      if (has_marks_ && leaves_region(value) && is_outside(value, nodes[i])) is_wanted_outside[value.id] = true;
    });
  }
  for (size_t i = 0; i < joint_.layout.num_primals(); ++i) {
    if (is_wanted[graph().inputs()[i].id]) saved.push_back(graph().inputs()[i]);
  }
  return sorted_unique(std::move(saved));
}

std::vector<Value> JointAnalysis::required(bool either_is_late) const {
  return saved_if([&](size_t node, Value) {
    return !must_recompute_[node] && !(either_is_late && places_[node] == JointPlace::kEither);
  });
}

// The nodes that would run in the backward if a choice were taken at its word.
std::vector<bool> JointAnalysis::recomputed_for(const std::vector<bool>& is_chosen) const {
  const auto& nodes = graph().nodes();
  std::vector<bool> is_wanted(graph().num_values());
  std::vector<bool> runs(nodes.size());
  for (size_t i = joint_.layout.num_forward_outputs(); i < graph().outputs().size(); ++i) {
    if (graph().outputs()[i]) is_wanted[graph().outputs()[i].id] = true;
  }
  for (size_t i = nodes.size(); i-- > 0;) {
    runs[i] = places_[i] == JointPlace::kBackward && has_effect(nodes[i]);
    for (const Value output : nodes[i].outputs) {
      runs[i] = runs[i] || (output && is_wanted[output.id] && !is_chosen[output.id]);
    }
    if (runs[i]) for_each_operand_value(nodes[i], [&](Value value) { is_wanted[value.id] = true; });
  }
  return runs;
}

std::vector<Value> JointAnalysis::obey_marks(const std::vector<Value>& chosen) const {
  std::vector<bool> is_chosen(graph().num_values());
  for (const Value value : chosen) is_chosen[value.id] = true;
  const auto was_recomputed = recomputed_for(is_chosen);
  return saved_if([&](size_t node, Value value) {
    return is_chosen[value.id] || (!must_recompute_[node] && !was_recomputed[node]);
  });
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
