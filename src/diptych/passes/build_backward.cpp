#include "diptych/passes/build_backward.h"

#include <algorithm>
#include <unordered_map>

#include "diptych/base/check.h"
#include "diptych/graph/recomputation.h"
#include "diptych/graph/rewrite.h"
#include "diptych/ops/tags.h"

namespace diptych::detail {
namespace {

/// The stage at which a node is recomputed: the region whose recomputation it is part of, empty for none.
using Stage = InternedString;

/// A node of the joint graph as it occurs in the backward graph at one stage. A node of an inner region may occur there
/// twice, once for what follows that region in the outer one and once for its own backward.
struct Run {
  size_t node;
  Stage stage;
  bool operator==(const Run& other) const { return node == other.node && stage == other.stage; }
};

struct HashRun {
  size_t operator()(const Run& run) const {
    return std::hash<const void*>()(&run.stage.str()) ^ run.node * 0x9e3779b97f4a7c15ULL;
  }
};

class BackwardBuilder {
 public:
  BackwardBuilder(const JointAnalysis& analysis, const std::vector<Value>& saved)
      : analysis_(analysis),
        source_(analysis.graph()),
        rewriter_(source_),
        is_given_(source_.num_values()),
        emitted_(source_.nodes().size()),
        copies_(analysis.has_marks() ? source_.num_values() : 0) {
    rewriter_.graph().set_name("backward");
    auto slots = residual_slots(saved.size());
    for (size_t i = 0; i < saved.size(); ++i) add_input(saved[i], std::move(slots[i]));
    for (size_t i = analysis.joint().layout.num_primals(); i < source_.inputs().size(); ++i) {
      add_input(source_.inputs()[i], source_.input_slots()[i]);
    }
  }

  Graph build() {
    const size_t begin = analysis_.joint().layout.num_forward_outputs();
    const auto gradients = slice(source_.outputs(), begin, source_.outputs().size());
    mark_needed(gradients);
    for (size_t i = 0; i < source_.nodes().size(); ++i) {
      const Node& node = source_.nodes()[i];
      if (!needed_[i] || analysis_.place(i) != JointPlace::kBackward) continue;
      for_each_operand_value(node, [&](Value value) { recompute(value, node.provenance.region); });
      emit({i, {}});
    }
    std::vector<Value> outputs;
    for (const Value gradient : gradients) {
      if (gradient) recompute(gradient, {});
      outputs.push_back(gradient ? copy_for(gradient, {}) : gradient);
    }
    rewriter_.graph().set_outputs(std::move(outputs), slice(source_.output_slots(), begin, source_.outputs().size()));
    return std::move(rewriter_.graph());
  }

 private:
  void add_input(Value value, Slot slot) {
    rewriter_.add_input(value, std::move(slot));
    is_given_[value.id] = true;
  }

  void mark_needed(const std::vector<Value>& gradients) {
    needed_.assign(source_.nodes().size(), false);
    std::vector<bool> wanted(source_.num_values());
    for (const Value gradient : gradients) {
      if (gradient) wanted[gradient.id] = true;
    }
    for (size_t i = source_.nodes().size(); i-- > 0;) {
      const Node& node = source_.nodes()[i];
      needed_[i] = analysis_.place(i) == JointPlace::kBackward && has_effect(node);
      for (const Value output : node.outputs) {
        needed_[i] = needed_[i] || (output && wanted[output.id] && !is_given_[output.id]);
      }
      if (needed_[i]) for_each_operand_value(node, [&](Value value) { wanted[value.id] = true; });
    }
  }

  bool is_computed(Value value) const {
    return !is_given_[value.id] && source_.info(value).kind == ValueInfo::Kind::kNode;
  }

  // The stage at which a reader that belongs to `region` finds `value`: that of the innermost region which holds both
  // and which drops the value that was made for the stage before. A value that never leaves its region has no readers
  // outside, whatever region autograd's nodes carry.
  Stage stage_of(Value value, InternedString region) const {
    if (!analysis_.has_marks()) return {};
    const auto index = static_cast<size_t>(source_.info(value).node);
    const Provenance& from = source_.nodes()[index].provenance;
    if (from.region.empty() || analysis_.place(index) != JointPlace::kForward) return {};
    size_t depth = common_region_depth(from.region, region);
    const auto deciding = from.marks.deciding_depth();
    if (analysis_.must_recompute(index) && !analysis_.leaves_region(value)) depth = std::max(depth, *deciding + 1);
    while (depth > 0 && from.marks.at(depth - 1) != Rematerialize::kRecompute) --depth;
    return outer_region(from.region, depth);
  }

  // The region for which a run reads its operands. A node that autograd recorded reads them for the region whose
  // gradient it computes.
  InternedString reads_for(const Run& run) const {
    return analysis_.place(run.node) == JointPlace::kForward ? run.stage : source_.nodes()[run.node].provenance.region;
  }

  // The value in the backward graph that replaces `value` for readers in `region`.
  Value copy_for(Value value, InternedString region) {
    if (!analysis_.has_marks() || !is_computed(value)) return rewriter_[value];
    const Stage stage = stage_of(value, region);
    if (stage.empty()) return copies_[value.id];
    const auto& info = source_.info(value);
    return staged_.at({static_cast<size_t>(info.node), stage})[info.index];
  }

  // Returns whether `run` is requested for the first time, and remembers that it was.
  bool begin(const Run& run) {
    if (!run.stage.empty()) return staged_.try_emplace(run).second;
    const bool is_first = !emitted_[run.node];
    emitted_[run.node] = true;
    return is_first;
  }

  // Emits the nodes that compute `value` and have not been emitted yet, in the order of the joint graph.
  void recompute(Value value, InternedString region) {
    std::vector<Run> missing;
    std::vector<std::pair<Value, InternedString>> open{{value, region}};
    while (!open.empty()) {
      const auto [next, reader] = open.back();
      open.pop_back();
      const auto& info = source_.info(next);
      if (is_given_[next.id] || info.kind == ValueInfo::Kind::kConstant) continue;
      DIPTYCH_CHECK(info.kind == ValueInfo::Kind::kNode,
                    "[split_joint] the backward of '{}' needs the input '{}', which the partitioner did not choose to "
                    "save; choose every input that the backward reads or computes from",
                    source_.name(), source_.input_slots()[info.index].path);
      const Run run{static_cast<size_t>(info.node), stage_of(next, reader)};
      if (!begin(run)) continue;
      missing.push_back(run);
      for_each_operand_value(source_.nodes()[run.node],
                             [&](Value operand) { open.emplace_back(operand, reads_for(run)); });
    }
    std::stable_sort(missing.begin(), missing.end(), [](const Run& a, const Run& b) { return a.node < b.node; });
    for (const Run& run : missing) emit(run);
  }

  void emit(const Run& run) {
    Node node = source_.nodes()[run.node];
    if (analysis_.place(run.node) == JointPlace::kForward) {
      DIPTYCH_CHECK(!has_effect(node),
                    "[split_joint] the backward of '{}' needs the result of {}, which must not run twice; have the "
                    "partitioner save it",
                    source_.name(), node.op.name());
      static const InternedString kOrigin(kRecomputeOrigin);
      node.provenance.origin = kOrigin;
      node.provenance.region = run.stage;
      node.provenance.marks = {};
    }
    std::vector<std::pair<Value, Value>> given;  // outputs that are residuals stay what the forward saved
    for (const Value output : node.outputs) {
      if (output && is_given_[output.id]) given.emplace_back(output, rewriter_[output]);
    }
    if (analysis_.has_marks()) {
      for_each_operand_value(node, [&](Value operand) {
        if (is_computed(operand)) rewriter_.map(operand, copy_for(operand, reads_for(run)));
      });
    }
    rewriter_.copy_node(node);
    keep_copies(run);
    for (const auto& [old, input] : given) rewriter_.map(old, input);
  }

  void keep_copies(const Run& run) {
    if (run.stage.empty()) emitted_[run.node] = true;
    if (!analysis_.has_marks()) return;
    const auto& made = rewriter_.graph().nodes().back().outputs;
    if (!run.stage.empty()) {
      staged_[run] = made;
      return;
    }
    const auto& outputs = source_.nodes()[run.node].outputs;
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (outputs[i]) copies_[outputs[i].id] = made[i];
    }
  }

  const JointAnalysis& analysis_;
  const Graph& source_;
  Rewriter rewriter_;
  std::vector<bool> is_given_;
  std::vector<bool> needed_;
  /// `emitted_` and `copies_`: which nodes have been emitted, or are about to be, outside the recomputation of regions,
  /// and, if there are regions, the values that they made. `staged_`: the same for nodes inside.
  std::vector<bool> emitted_;
  std::vector<Value> copies_;
  std::unordered_map<Run, c10::SmallVector<Value, 2>, HashRun> staged_;
};

}  // namespace

Graph build_backward(const JointAnalysis& analysis, const std::vector<Value>& saved) {
  return BackwardBuilder(analysis, saved).build();
}

std::vector<Slot> residual_slots(size_t count) {
  std::vector<Slot> slots;
  for (size_t i = 0; i < count; ++i) slots.push_back({SlotKind::kResidual, fmt::format("residual.{}", i)});
  return slots;
}

}  // namespace diptych::detail
