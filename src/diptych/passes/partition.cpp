#include "diptych/passes/partition.h"

#include <charconv>

#include "diptych/base/check.h"
#include "diptych/base/log.h"
#include "diptych/graph/rewrite.h"
#include "diptych/ops/tags.h"
#include "diptych/passes/build_backward.h"
#include "diptych/passes/joint_analysis.h"

namespace diptych {

using namespace detail;
namespace {

using detail::JointAnalysis;
using detail::JointPlace;
using detail::residual_slots;
using detail::slice;

Graph forward_graph(const JointAnalysis& analysis, const std::vector<Value>& saved) {
  const Graph& joint = analysis.graph();
  const auto& layout = analysis.joint().layout;
  auto outputs = slice(joint.outputs(), 0, layout.num_forward_outputs());
  auto slots = slice(joint.output_slots(), 0, layout.num_forward_outputs());
  outputs.insert(outputs.end(), saved.begin(), saved.end());
  for (auto& slot : residual_slots(saved.size())) slots.push_back(std::move(slot));
  std::vector<size_t> effects;
  for (size_t i = 0; i < joint.nodes().size(); ++i) {
    if (analysis.place(i) == JointPlace::kForward && has_effect(joint.nodes()[i])) effects.push_back(i);
  }
  return extract(joint, "forward", slice(joint.inputs(), 0, layout.num_primals()),
                 slice(joint.input_slots(), 0, layout.num_primals()), outputs, std::move(slots), effects);
}

void check_choice(const JointAnalysis& analysis, const std::vector<Value>& saved, const std::string& name) {
  for (const Value value : saved) {
    DIPTYCH_CHECK(value && static_cast<size_t>(value.id) < analysis.graph().num_values(),
                  "[split_joint] the partitioner '{}' chose %{}, which is not a value of the joint graph", name,
                  value.id);
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
  if (analysis.has_marks()) saved = analysis.obey_marks(saved);
  std::erase_if(saved, [&](Value value) { return analysis.is_constant(value); });
  Split split{forward_graph(analysis, saved), detail::build_backward(analysis, saved), joint.layout, saved};
  log(Log::kPartition,
      [&] { return fmt::format("{} of '{}'\n{}", partitioner.name, joint.graph.name(), explain(split)); });
  return split;
}

Graph detail::split_backward(const Joint& joint, const std::vector<Value>& saved) {
  const JointAnalysis analysis(joint);
  return detail::build_backward(analysis, saved);
}

Partitioner partitioner_by_name(std::string_view name) {
  if (name == "default") return default_partition();
  if (name == "min_cut") return min_cut();
  if (name == "hidden_min_cut") return hidden_min_cut();
  constexpr std::string_view kBudget = "memory_budget(";
  if (name.starts_with(kBudget) && name.ends_with(")")) {
    const auto text = name.substr(kBudget.size(), name.size() - kBudget.size() - 1);
    double fraction = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), fraction);
    DIPTYCH_CHECK(error == std::errc() && end == text.data() + text.size(),
                  "[partitioner_by_name] got '{}', expected a number between 0 and 1 in the brackets", name);
    return memory_budget(fraction);
  }
  detail::throw_user_error(
      fmt::format("[partitioner_by_name] there is no partitioner '{}'; choose default, min_cut, hidden_min_cut or "
                  "memory_budget(fraction), as in memory_budget(0.5)",
                  name));
}

}  // namespace diptych
