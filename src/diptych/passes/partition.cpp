#include "diptych/passes/partition.h"

#include <charconv>

#include "diptych/base/error.h"
#include "diptych/base/switches.h"
#include "diptych/graph/rewrite.h"
#include "diptych/ops/tags.h"
#include "diptych/passes/joint_analysis.h"

namespace diptych {
namespace {

using detail::JointAnalysis;
using detail::Place;

template <class T>
std::vector<T> slice(const std::vector<T>& all, size_t begin, size_t end) {
  return {all.begin() + static_cast<std::ptrdiff_t>(begin), all.begin() + static_cast<std::ptrdiff_t>(end)};
}

std::vector<Slot> residual_slots(size_t count) {
  std::vector<Slot> slots;
  for (size_t i = 0; i < count; ++i) slots.push_back({SlotKind::kResidual, fmt::format("residual.{}", i)});
  return slots;
}

Graph forward_graph(const JointAnalysis& analysis, const std::vector<Value>& saved) {
  const Graph& joint = analysis.graph();
  const auto& layout = analysis.joint().layout;
  auto outputs = slice(joint.outputs(), 0, layout.num_forward_outputs());
  auto slots = slice(joint.output_slots(), 0, layout.num_forward_outputs());
  outputs.insert(outputs.end(), saved.begin(), saved.end());
  for (auto& slot : residual_slots(saved.size())) slots.push_back(std::move(slot));
  std::vector<size_t> effects;
  for (size_t i = 0; i < joint.nodes().size(); ++i) {
    if (analysis.place(i) == Place::kForward && has_effect(joint.nodes()[i])) effects.push_back(i);
  }
  return extract(joint, "forward", slice(joint.inputs(), 0, layout.num_primals()),
                 slice(joint.input_slots(), 0, layout.num_primals()), outputs, std::move(slots), effects);
}

/// Builds the backward graph: nodes that depend on tangents in their order, recomputed ones just before their first
/// use.
class BackwardBuilder {
 public:
  BackwardBuilder(const JointAnalysis& analysis, const std::vector<Value>& saved)
      : analysis_(analysis),
        source_(analysis.graph()),
        rewriter_(source_),
        is_given_(source_.num_values()),
        emitted_(source_.nodes().size()) {
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
      if (!needed_[i] || analysis_.place(i) != Place::kBackward) continue;
      for_each_operand_value(source_.nodes()[i], [&](Value value) { recompute(value); });
      emit(i);
    }
    std::vector<Value> outputs;
    for (const Value gradient : gradients) {
      if (gradient) recompute(gradient);
      outputs.push_back(rewriter_[gradient]);
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
      needed_[i] = analysis_.place(i) == Place::kBackward && has_effect(node);
      for (const Value output : node.outputs) {
        needed_[i] = needed_[i] || (output && wanted[output.id] && !is_given_[output.id]);
      }
      if (needed_[i]) for_each_operand_value(node, [&](Value value) { wanted[value.id] = true; });
    }
  }

  // Emits what `value` is made of and is not there yet, in the order of the joint graph.
  void recompute(Value value) {
    std::vector<size_t> missing;
    std::vector<Value> open{value};
    while (!open.empty()) {
      const Value next = open.back();
      open.pop_back();
      const auto& info = source_.info(next);
      if (is_given_[next.id] || info.kind == ValueInfo::Kind::kConstant) continue;
      DIPTYCH_CHECK(info.kind == ValueInfo::Kind::kNode,
                    "[split_joint] the backward of '{}' needs the input '{}', which the partitioner did not choose to "
                    "save; choose every input that the backward reads or computes from",
                    source_.name(), source_.input_slots()[info.index].path);
      const auto index = static_cast<size_t>(info.node);
      if (emitted_[index]) continue;
      emitted_[index] = true;
      missing.push_back(index);
      for_each_operand_value(source_.nodes()[index], [&](Value operand) { open.push_back(operand); });
    }
    std::sort(missing.begin(), missing.end());
    for (const size_t index : missing) emit(index);
  }

  void emit(size_t index) {
    Node node = source_.nodes()[index];
    if (analysis_.place(index) == Place::kForward) {
      DIPTYCH_CHECK(!has_effect(node),
                    "[split_joint] the backward of '{}' needs the result of {}, which must not run twice; the "
                    "partitioner must choose to save it",
                    source_.name(), node.op.name());
      static const InternedString kOrigin("recompute");
      node.provenance.origin = kOrigin;
    }
    emitted_[index] = true;
    std::vector<std::pair<Value, Value>> given;  // outputs that are residuals stay what the forward saved
    for (const Value output : node.outputs) {
      if (output && is_given_[output.id]) given.emplace_back(output, rewriter_[output]);
    }
    rewriter_.copy_node(node);
    for (const auto& [old, input] : given) rewriter_.map(old, input);
  }

  const JointAnalysis& analysis_;
  const Graph& source_;
  Rewriter rewriter_;
  std::vector<bool> is_given_;
  std::vector<bool> emitted_;
  std::vector<bool> needed_;
};

void check_choice(const JointAnalysis& analysis, const std::vector<Value>& saved, const std::string& name) {
  for (const Value value : saved) {
    DIPTYCH_CHECK(value && static_cast<size_t>(value.id) < analysis.graph().num_values(),
                  "[split_joint] the partitioner '{}' chose %{}, which is no value of the joint graph", name, value.id);
    DIPTYCH_CHECK(!analysis.is_late(value),
                  "[split_joint] the partitioner '{}' chose to save %{} : {}, which exists only in the backward pass; "
                  "choose values that do not depend on a tangent",
                  name, value.id, type_string(analysis.graph().meta(value)));
  }
}

}  // namespace

Split split_joint(const Joint& joint, const Partitioner& partitioner) {
  const JointAnalysis analysis(joint);
  auto saved = detail::sorted_unique(partitioner.choose(joint));
  check_choice(analysis, saved, partitioner.name);
  std::erase_if(saved, [&](Value value) { return analysis.is_constant(value); });
  Split split{forward_graph(analysis, saved), BackwardBuilder(analysis, saved).build(), joint.layout, saved};
  log(Log::kPartition, "{} of '{}'\n{}", partitioner.name, joint.graph.name(),
      log_enabled(Log::kPartition) ? explain(split) : "");
  return split;
}

Graph split_backward(const Joint& joint, const std::vector<Value>& saved) {
  const JointAnalysis analysis(joint);
  return BackwardBuilder(analysis, saved).build();
}

Partitioner partitioner_by_name(std::string_view name) {
  if (name == "default") return default_partition();
  if (name == "min_cut") return min_cut();
  constexpr std::string_view kBudget = "memory_budget(";
  if (name.starts_with(kBudget) && name.ends_with(")")) {
    const auto text = name.substr(kBudget.size(), name.size() - kBudget.size() - 1);
    double fraction = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), fraction);
    DIPTYCH_CHECK(error == std::errc() && end == text.data() + text.size(),
                  "[partitioner_by_name] got '{}', expected a number between 0 and 1 in the brackets", name);
    return memory_budget(fraction);
  }
  detail::throw_user_error(fmt::format(
      "[partitioner_by_name] there is no partitioner '{}'; choose default, min_cut or memory_budget(fraction), as in "
      "memory_budget(0.5)",
      name));
}

}  // namespace diptych
