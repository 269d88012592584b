#include "diptych/compile/check_explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "diptych/compile/check_compare.h"
#include "diptych/graph/print.h"
#include "diptych/interpreter/program.h"
#include "diptych/interpreter/run_guards.h"
#include "diptych/ops/tags.h"

namespace diptych::detail {
namespace {

// The value of one node. Nodes that make views are left out: functions take views that graphs do not have, and the
// reverse.
struct NodeValue {
  const Node* node;
  ValueSketch sketch;
};

std::vector<NodeValue> values_of(const Graph& graph, std::vector<at::Tensor>&& inputs) {
  std::vector<NodeValue> found;
  std::vector<Value> outputs;
  std::vector<Slot> slots;
  for (const Node& node : graph.nodes()) {
    if (has_tag(node.op, Tag::kView) || leaves_values_unset(node.op)) continue;
    for (const Value output : node.outputs) {
      if (!output) continue;
      found.push_back({&node, {}});
      outputs.push_back(output);
      slots.push_back({SlotKind::kOutput, fmt::format("value.{}", output.id)});
    }
  }
  Graph all = graph;
  all.set_outputs(outputs, std::move(slots));
  const Program program(all);
  const RunBelowAutograd below;
  const auto values = program.run(std::move(inputs));
  for (size_t i = 0; i < found.size(); ++i) found[i].sketch = ValueSketch::of(values[i]);
  return found;
}

class Search {
 public:
  Search(const Graph& graph, const std::vector<OperatorRecord>& records, const std::optional<double>& tolerance)
      : graph_(graph), tolerance_(tolerance) {
    for (const OperatorRecord& record : records) {
      for (const ValueSketch& result : record.results) computed_[record.name].push_back({&record, &result});
    }
    std::set<std::string> in_graph;
    for (const Node& node : graph.nodes()) in_graph.insert(plain_operator_name(node.op.name()));
    const auto is_new = [&](const OperatorRecord& record) { return in_graph.count(record.name) == 0; };
    const auto found = std::find_if(records.begin(), records.end(), is_new);
    if (found != records.end()) foreign_ = &*found;
  }

  std::string run(const std::vector<NodeValue>& values) {
    for (const NodeValue& value : values) {
      if (!value.sketch.is_known) continue;
      const auto candidates = candidates_for(value);
      if (candidates.empty()) {
        if (foreign_ != nullptr) return parting(value);
        continue;  // a pass made this node from others
      }
      const size_t place = seen_[key_of(value)]++;
      const double tolerance = tolerance_for(value.sketch.dtype, tolerance_);
      const auto is_it = [&](const Computed& computed) { return computed.sketch->is_near(value.sketch, tolerance); };
      if (std::any_of(candidates.begin(), candidates.end(), is_it)) continue;
      return difference(value, candidates[std::min(place, candidates.size() - 1)]);
    }
    return "";
  }

 private:
  struct Computed {
    const OperatorRecord* record;
    const ValueSketch* sketch;
  };

  std::vector<Computed> candidates_for(const NodeValue& value) const {
    std::vector<Computed> candidates;
    const auto found = computed_.find(plain_operator_name(value.node->op.name()));
    if (found == computed_.end()) return candidates;
    for (const Computed& computed : found->second) {
      if (!computed.sketch->is_known || computed.sketch->same_shape(value.sketch)) candidates.push_back(computed);
    }
    return candidates;
  }
  static std::string key_of(const NodeValue& value) {
    return fmt::format("{} {}", plain_operator_name(value.node->op.name()), value.sketch.sizes.size());
  }
  static std::string at_place(const std::string& place) { return place.empty() ? "" : " in " + place; }

  std::string difference(const NodeValue& value, const Computed& computed) const {
    return fmt::format("\n  the first node whose value differs: {}\n    original: {}{}\n    compiled: {}{}",
                       node_line(graph_, *value.node), computed.sketch->str(), at_place(computed.record->place),
                       value.sketch.str(), at_place(value.node->provenance.scope.str()));
  }
  std::string parting(const NodeValue& value) const {
    return fmt::format("\n  the two diverge where the graph has {}{}\n    the original function calls {}{}: {}",
                       node_line(graph_, *value.node), at_place(value.node->provenance.scope.str()), foreign_->name,
                       at_place(foreign_->place), foreign_->results.empty() ? "" : foreign_->results.front().str());
  }

  const Graph& graph_;
  std::optional<double> tolerance_;
  std::map<std::string, std::vector<Computed>> computed_;
  std::map<std::string, size_t> seen_;
  const OperatorRecord* foreign_ = nullptr;  ///< the first whose operator is not in the graph
};

}  // namespace

std::string first_differing_node(const Graph& graph, std::vector<at::Tensor> inputs,
                                 const std::vector<OperatorRecord>& records, const std::optional<double>& tolerance) {
  try {
    return Search(graph, records, tolerance).run(values_of(graph, std::move(inputs)));
  } catch (const std::exception& error) {
    return fmt::format("\n  the graph could not be run again to find the node: {}", error.what());
  }
}

}  // namespace diptych::detail
