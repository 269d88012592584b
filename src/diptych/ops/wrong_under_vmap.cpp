#include "diptych/ops/wrong_under_vmap.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "diptych/graph/rewrite.h"

namespace diptych::detail {
namespace {

// Appends a node with one result on behalf of another. Its metadata is known, so that nothing is asked of LibTorch,
// whose levels may be active around.
Value append(Graph& graph, const Node& like, std::string_view op, std::initializer_list<Operand> operands,
             TensorMeta meta) {
  Node node{Op::find(op), {}, {}, {}, {}, like.provenance, like.grad_enabled};
  node.provenance.origin = InternedString("right_under_vmap");
  for (const Operand& operand : operands) node.operands.push_back(operand);
  node.returns = {-1};
  return graph.nodes()[graph.add_node(std::move(node), {std::move(meta)})].outputs[0];
}

TensorMeta unsqueezed(TensorMeta meta, int64_t dim) {
  const auto at = static_cast<size_t>(dim);
  const SizeExpr stride = at < meta.sizes.size() ? meta.sizes[at] * meta.strides[at] : SizeExpr(1);
  meta.sizes.insert(meta.sizes.begin() + dim, SizeExpr(1));
  meta.strides.insert(meta.strides.begin() + dim, stride);
  return meta;
}

using Rule = bool (*)(Rewriter&, const Node&, const TensorMeta& result);

// One node in place of another.
void replace(Rewriter& rewriter, const Node& node, std::string_view op, std::initializer_list<Operand> operands,
             const TensorMeta& result) {
  rewriter.map(node.outputs[0], append(rewriter.graph(), node, op, operands, result));
}

std::optional<int64_t> number(const Operand& operand) {
  const auto* constant = std::get_if<c10::IValue>(&operand);
  return constant != nullptr && constant->isInt() ? std::optional(constant->toInt()) : std::nullopt;
}

bool is_none(const Operand& operand) {
  const auto* constant = std::get_if<c10::IValue>(&operand);
  return constant != nullptr && constant->isNone();
}

int64_t wrapped(int64_t dim, const TensorMeta& meta) {
  return dim < 0 ? dim + static_cast<int64_t>(meta.sizes.size()) : dim;
}

// A select is a slice of one: slice_scatter, which has a rule for batches of its own.
bool select_as_slice(Rewriter& rewriter, const Node& node, const TensorMeta& result) {
  Graph& graph = rewriter.graph();
  const auto operands = rewriter.map_operands(node);
  if (!number(operands[3])) return false;  // it is computed of sizes
  const int64_t dim = wrapped(*number(operands[2]), result);
  const SizeExpr& size = result.sizes[static_cast<size_t>(dim)];
  int64_t start = *number(operands[3]);
  if (start < 0 && size.is_static()) start += size.hint();
  const Value source = std::get<Value>(operands[1]);
  const Value slice =
      append(graph, node, "aten.unsqueeze", {source, c10::IValue(dim)}, unsqueezed(graph.meta(source), dim));
  const c10::IValue stop = start == -1 ? c10::IValue() : c10::IValue(start + 1);
  replace(rewriter, node, "aten.slice_scatter",
          {operands[0], slice, c10::IValue(dim), c10::IValue(start), stop, c10::IValue(int64_t{1})}, result);
  return true;
}

// LibTorch's rule for batches takes the ends of a slice as they are, also where they count from the back or lie beyond.
bool slice_within(Rewriter& rewriter, const Node& node, const TensorMeta& result) {
  const auto operands = rewriter.map_operands(node);
  const int64_t dim = wrapped(*number(operands[2]), result);
  const SizeExpr& size = result.sizes[static_cast<size_t>(dim)];
  const auto end = [&](const Operand& operand, int64_t otherwise) -> std::optional<int64_t> {
    if (is_none(operand)) return otherwise;
    const auto given = number(operand);
    if (!given) return std::nullopt;
    return std::clamp(*given < 0 ? *given + size.hint() : *given, int64_t{0}, size.hint());
  };
  if (!size.is_static()) return false;
  const auto start = end(operands[3], 0), stop = end(operands[4], size.hint());
  if (!start || !stop) return false;
  replace(rewriter, node, "aten.slice_scatter",
          {operands[0], operands[1], c10::IValue(dim), c10::IValue(*start), c10::IValue(std::max(*start, *stop)),
           operands[5]},
          result);
  return true;
}

// Kernels may lay out a batch in another way than one element.
bool view_as_reshape(Rewriter& rewriter, const Node& node, const TensorMeta& result) {
  const auto operands = rewriter.map_operands(node);
  replace(rewriter, node, "aten.reshape", {operands[0], operands[1]}, result);
  return true;
}

TensorMeta dense(TensorMeta like, std::vector<int64_t> sizes, at::ScalarType dtype) {
  like.sizes.assign(sizes.begin(), sizes.end());
  like.strides = contiguous_strides(like.sizes);
  like.dtype = dtype;
  return like;
}

// Has no rule for batches; a write by index has one. The strides count in the memory of a tensor without gaps.
bool strided_as_indexed(Rewriter& rewriter, const Node& node, const TensorMeta& result) {
  Graph& graph = rewriter.graph();
  const auto operands = rewriter.map_operands(node);
  const Value self = std::get<Value>(operands[0]), source = std::get<Value>(operands[1]);
  const TensorMeta meta = graph.meta(self);
  const bool begins_there = is_none(operands[4]) || number(operands[4]) == 0;
  const bool is_known = meta.is_static() && graph.meta(source).is_static() &&
                        std::holds_alternative<c10::IValue>(operands[2]) &&
                        std::holds_alternative<c10::IValue>(operands[3]);
  if (!begins_there || !is_known || meta.strides != contiguous_strides(meta.sizes)) return false;
  const auto product = [](const std::vector<int64_t>& sizes) {
    return std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
  };
  const auto sizes = std::get<c10::IValue>(operands[2]).toIntVector();
  const int64_t count = product(meta.size_hints()), part = product(sizes);
  const auto flat = [&](Value value, int64_t elements) {
    const TensorMeta of = graph.meta(value);
    return append(graph, node, "aten.reshape", {value, c10::IValue(std::vector<int64_t>{elements})},
                  dense(of, {elements}, of.dtype));
  };
  const TensorMeta places = dense(meta, {count}, at::kLong);
  const Value all = append(
      graph, node, "aten.arange",
      {c10::IValue(count), c10::IValue(at::kLong), c10::IValue(), c10::IValue(meta.device), c10::IValue()}, places);
  const Value place = append(graph, node, "aten.as_strided", {all, operands[2], operands[3], c10::IValue(int64_t{0})},
                             dense(places, sizes, at::kLong));
  const Value written = append(graph, node, "aten.scatter.src",
                               {flat(self, count), c10::IValue(int64_t{0}), flat(place, part), flat(source, part)},
                               dense(meta, {count}, meta.dtype));
  replace(rewriter, node, "aten.reshape", {written, c10::IValue(meta.size_hints())}, result);
  return true;
}

constexpr std::pair<std::string_view, Rule> kRules[] = {
    {"aten.as_strided_scatter", strided_as_indexed},
    {"aten.select_scatter", select_as_slice},
    {"aten.slice_scatter", slice_within},
    {"aten.view", view_as_reshape},
    {"aten._unsafe_view", view_as_reshape},
};

Rule rule_for(const Node& node) {
  if (node.op.is_hop()) return nullptr;
  const auto* const found =
      std::find_if(std::begin(kRules), std::end(kRules), [&](const auto& row) { return row.first == node.op.name(); });
  return found == std::end(kRules) ? nullptr : found->second;
}

}  // namespace

Graph with_rules_for_batches(const Graph& graph) {
  if (std::none_of(graph.nodes().begin(), graph.nodes().end(), rule_for)) return graph;
  Rewriter rewriter(graph);
  rewriter.copy_inputs();
  for (const Node& node : graph.nodes()) {
    const Rule rule = rule_for(node);
    if (rule == nullptr || !rule(rewriter, node, graph.meta(node.outputs[0]))) rewriter.copy_node(node);
  }
  return rewriter.finish();
}

}  // namespace diptych::detail
