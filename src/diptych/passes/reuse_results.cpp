#include "diptych/passes/reuse_results.h"

#include <fmt/format.h>

#include <algorithm>

#include "diptych/base/check.h"
#include "diptych/graph/identical.h"
#include "diptych/graph/rewrite.h"
#include "diptych/ops/tags.h"
#include "diptych/passes/equal_nodes.h"

namespace diptych::detail {
namespace {

// The value that a node copies, to memory that is laid out alike; none for another node. A copy is equal to what it
// copies; whether it was needless depends on what else a graph does.
Value copied(const Graph& graph, const Node& node) {
  if (!has_tag(node.op, Tag::kCopy) || node.outputs.size() != 1 || !node.outputs[0]) return {};
  const auto* source = std::get_if<Value>(&node.operands[0]);
  return source != nullptr && graph.meta(*source) == graph.meta(node.outputs[0]) ? *source : Value{};
}

// Finds, for values of a graph, those of an earlier graph that are computed alike.
class Matcher {
 public:
  Matcher(const Graph& graph, const Graph& earlier) : graph_(graph), earlier_(earlier), equals_(graph, earlier) {
    DIPTYCH_ASSERT(graph.inputs().size() >= earlier.inputs().size(), "reuse_results got {} and {} inputs",
                   graph.inputs().size(), earlier.inputs().size());
    for (size_t i = 0; i < earlier.inputs().size(); ++i) equals_.map(graph.inputs()[i], earlier.inputs()[i]);
    map_constants();
    add_earlier();
  }

  /// Returns the earlier value per value; none where there is none.
  std::vector<Value> run() {
    for (const Node& node : graph_.nodes()) {
      if (has_effect(node) || !reads_known(node)) continue;
      if (const Value source = copied(graph_, node)) {
        equals_.map(node.outputs[0], equals_[source]);
        continue;
      }
      const Node* const found = known_.find(graph_, {&node, equals_.map_operands(node)});
      for (size_t i = 0; found != nullptr && i < node.outputs.size(); ++i) {
        if (node.outputs[i]) equals_.map(node.outputs[i], found->outputs[i]);
      }
    }
    std::vector<Value> equal(graph_.num_values());
    for (size_t i = 0; i < equal.size(); ++i) {
      const Value value{static_cast<int32_t>(i)};
      if (equals_.is_mapped(value)) equal[i] = equals_[value];
    }
    return equal;
  }

 private:
  // Copies of the earlier graph are what they copy.
  void add_earlier() {
    std::vector<Value> sources(earlier_.num_values());
    const auto without_copies = [&](Value& value) {
      if (value && sources[value.id]) value = sources[value.id];
    };
    for (const Node& node : earlier_.nodes()) {
      if (has_effect(node)) continue;
      auto operands = node.operands;
      for (Operand& operand : operands) {
        if (auto* value = std::get_if<Value>(&operand)) without_copies(*value);
        if (auto* list = std::get_if<ValueList>(&operand)) std::for_each(list->begin(), list->end(), without_copies);
      }
      if (copied(earlier_, node)) {
        sources[node.outputs[0].id] = std::get<Value>(operands[0]);
      } else {
        known_.add(earlier_, {&node, std::move(operands)});
      }
    }
  }

  void map_constants() {
    for (size_t i = 0; i < graph_.num_values(); ++i) {
      const Value value{static_cast<int32_t>(i)};
      const auto& info = graph_.info(value);
      if (info.kind != ValueInfo::Kind::kConstant) continue;
      for (size_t k = 0; k < earlier_.num_values() && !equals_.is_mapped(value); ++k) {
        const Value other{static_cast<int32_t>(k)};
        const auto& of_other = earlier_.info(other);
        if (of_other.kind == ValueInfo::Kind::kConstant &&
            identical_tensors(graph_.constants()[info.index], earlier_.constants()[of_other.index])) {
          equals_.map(value, other);
        }
      }
    }
  }

  bool reads_known(const Node& node) const {
    bool all = true;
    for_each_operand_value(node, [&](Value value) { all = all && (!value || equals_.is_mapped(value)); });
    return all;
  }

  const Graph& graph_;
  const Graph& earlier_;
  Rewriter equals_;
  EqualNodes known_;
};

std::vector<size_t> nodes_with_effect(const Graph& graph) {
  std::vector<size_t> found;
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    if (has_effect(graph.nodes()[i])) found.push_back(i);
  }
  return found;
}

// Which values are read where the values `given` are not computed.
std::vector<bool> read_values(const Graph& graph, const std::vector<bool>& given) {
  std::vector<bool> read(graph.num_values());
  for (const Value output : graph.outputs()) {
    if (output) read[output.id] = true;
  }
  for (auto node = graph.nodes().rbegin(); node != graph.nodes().rend(); ++node) {
    const bool is_run = has_effect(*node) || std::any_of(node->outputs.begin(), node->outputs.end(), [&](Value output) {
                          return output && read[output.id] && !given[output.id];
                        });
    if (is_run) for_each_operand_value(*node, [&](Value value) { read[value.id] = true; });
  }
  return read;
}

}  // namespace

ReusingGraph reuse_results(const Graph& graph, const Graph& earlier) {
  const std::vector<Value> equal = Matcher(graph, earlier).run();
  std::vector<Value> taken(earlier.outputs().size());
  std::vector<bool> given(graph.num_values());
  for (const Node& node : graph.nodes()) {
    for (const Value output : node.outputs) {
      if (!output || !equal[output.id]) continue;
      const auto& offered = earlier.outputs();
      const auto index =
          static_cast<size_t>(std::find(offered.begin(), offered.end(), equal[output.id]) - offered.begin());
      if (index == offered.size() || taken[index]) continue;
      taken[index] = output;
      given[output.id] = true;
    }
  }
  const std::vector<bool> read = read_values(graph, given);
  ReusingGraph found;
  std::vector<Value> inputs = graph.inputs();
  std::vector<Slot> slots = graph.input_slots();
  for (size_t i = 0; i < taken.size(); ++i) {
    if (!taken[i] || !read[taken[i].id]) continue;
    slots.push_back({SlotKind::kArgument, fmt::format("handed_on.{}", found.taken.size())});
    inputs.push_back(taken[i]);
    found.taken.push_back(i);
  }
  found.graph = found.taken.empty() ? graph
                                    : extract(graph, graph.name(), inputs, std::move(slots), graph.outputs(),
                                              graph.output_slots(), nodes_with_effect(graph));
  return found;
}

}  // namespace diptych::detail
