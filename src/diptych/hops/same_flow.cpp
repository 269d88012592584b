#include "diptych/hops/same_flow.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "diptych/graph/operand.h"
#include "diptych/ops/permutation.h"
#include "diptych/ops/tags.h"

namespace diptych::detail {
namespace {

/// Where a value comes from: a computation by its number, the number of the result, and the order in which the value
/// has the result's dimensions, empty if it is the same.
struct Origin {
  int64_t computation = -1, result = 0;
  std::vector<int64_t> order = {};
  bool operator==(const Origin&) const = default;
};

// A view where the strides allow it, and a view of a copy where they do not.
bool reshapes(const Op& op) { return has_tag(op, Tag::kStrideSensitive) && has_tag(op, Tag::kShapeView); }

/// Numbers the computations of several graphs, equal ones by one number, whatever the order of the nodes.
class Computations {
 public:
  std::vector<Origin> outputs_of(const Graph& graph) {
    std::vector<Origin> origins(graph.num_values());
    for (size_t i = 0; i < origins.size(); ++i) {
      const ValueInfo& info = graph.info(Value{static_cast<int32_t>(i)});
      const char* const kind = info.kind == ValueInfo::Kind::kInput ? "input" : "constant";
      if (info.node < 0) origins[i] = {number_of(fmt::format("{} {}", kind, info.index))};
    }
    num_draws_ = 0;
    for (const Node& node : graph.nodes()) add(graph, node, origins);
    std::vector<Origin> outputs;
    for (const Value output : graph.outputs()) outputs.push_back(output ? origins[output.id] : Origin{});
    return outputs;
  }

 private:
  int64_t number_of(const std::string& computation) {
    return numbers_.try_emplace(computation, static_cast<int64_t>(numbers_.size())).first->second;
  }

  void add(const Graph& graph, const Node& node, std::vector<Origin>& origins) {
    if (const auto moved = moved_by(graph, node, origins)) {
      origins[node.outputs[0].id] = *moved;
      return;
    }
    const int64_t number = number_of(text_of(graph, node, origins));
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i]) origins[node.outputs[i].id] = {number, static_cast<int64_t>(i)};
    }
  }

  // The origin of what only lies elsewhere than its operand, or in another order; nothing for other nodes.
  static std::optional<Origin> moved_by(const Graph& graph, const Node& node, const std::vector<Origin>& origins) {
    const auto* source = node.operands.empty() ? nullptr : std::get_if<Value>(&node.operands[0]);
    if (source == nullptr || !*source || node.outputs.size() != 1 || !node.outputs[0]) return std::nullopt;
    const TensorMeta& meta = graph.meta(*source);
    Origin origin = origins[source->id];
    if (has_tag(node.op, Tag::kCopy)) {
      return meta.dtype == graph.meta(node.outputs[0]).dtype ? std::optional(origin) : std::nullopt;
    }
    auto order = permutation_of(node, static_cast<int64_t>(meta.sizes.size()));
    if (!order) return std::nullopt;
    for (int64_t& dim : *order) dim = origin.order.empty() ? dim : origin.order[dim];
    origin.order = std::is_sorted(order->begin(), order->end()) ? std::vector<int64_t>() : std::move(*order);
    return origin;
  }

  // The operator with the origins of its operands, and constants; each draw is one of its own.
  std::string text_of(const Graph& graph, const Node& node, const std::vector<Origin>& origins) {
    const bool is_reshape = reshapes(node.op);
    std::string text = is_reshape ? "reshape" : node.op.name();
    if (is_reshape) text += fmt::format(" {}", fmt::join(graph.meta(node.outputs[0]).size_hints(), ","));
    if (draws_random(node)) text += fmt::format(" draw {}", num_draws_++);
    for_each_operand_value(node, [&](Value value) {
      const Origin& origin = origins[value.id];
      text += fmt::format(" ({}.{} [{}])", origin.computation, origin.result, fmt::join(origin.order, ","));
    });
    for (size_t i = 0; i < node.operands.size() && !is_reshape; ++i) {
      const Operand& operand = node.operands[i];
      const bool is_value = std::holds_alternative<Value>(operand) || std::holds_alternative<ValueList>(operand);
      if (!is_value) text += " " + operand_text(operand, operand_type(node.op, i));
    }
    for (const auto& subgraph : node.subgraphs) text += subgraph->code();
    return text;
  }

  std::map<std::string, int64_t> numbers_;
  int64_t num_draws_ = 0;
};

}  // namespace

bool have_same_flow(const Graph& a, const Graph& b) {
  Computations computations;
  return computations.outputs_of(a) == computations.outputs_of(b);
}

}  // namespace diptych::detail
