#include "diptych/ops/cost.h"

#include <algorithm>
#include <string_view>

#include "diptych/ops/tags.h"

namespace diptych::detail {
namespace {

constexpr int64_t kTranscendentalFlops = 10;
constexpr int64_t kNominalGigaflops = 50;
constexpr int64_t kNominalGigabytes = 10;
constexpr int64_t kCallNs = 500;

/// Sizes and operands of the node that a rule looks at.
struct View {
  const Graph& graph;
  const Node& node;

  const TensorMeta* operand(size_t i) const {
    const auto* value = i < node.operands.size() ? std::get_if<Value>(&node.operands[i]) : nullptr;
    return value != nullptr && *value ? &graph.meta(*value) : nullptr;
  }
  int64_t size(size_t i, int64_t dim) const {
    const auto* meta = operand(i);
    const auto rank = meta == nullptr ? 0 : static_cast<int64_t>(meta->sizes.size());
    if (dim < 0) dim += rank;
    return dim >= 0 && dim < rank ? meta->sizes[dim].hint() : 1;
  }
  int64_t numel(size_t i) const { return operand(i) == nullptr ? 0 : operand(i)->numel(); }
  int64_t output_numel() const {
    int64_t total = 0;
    for (const Value output : node.outputs) total += output ? graph.meta(output).numel() : 0;
    return total;
  }
  bool flag(size_t i, size_t element) const {
    const auto* list = i < node.operands.size() ? std::get_if<c10::IValue>(&node.operands[i]) : nullptr;
    return list == nullptr || !list->isBoolList() || list->toBoolList().get(element);
  }
};

// The product of operands `left` [.., m, k] and `right` [.., k, n] with the outputs' number of elements.
int64_t product_flops(const View& view, size_t left) { return 2 * view.output_numel() * view.size(left, -1); }

// Every output element sums over the weight [out, in / groups, kernel...].
int64_t convolution_flops(const View& view) {
  const int64_t outputs = std::max<int64_t>(view.size(1, 0), 1);
  return 2 * view.output_numel() * (view.numel(1) / outputs);
}

// Operands: grad_output, input, weight, ..., output_mask. The gradients of input and weight cost one forward each.
int64_t convolution_backward_flops(const View& view) {
  const int64_t once = 2 * view.numel(0) * (view.numel(2) / std::max<int64_t>(view.size(2, 0), 1));
  return once * (int64_t{view.flag(10, 0)} + int64_t{view.flag(10, 1)}) + (view.flag(10, 2) ? view.numel(0) : 0);
}

// Two products over [batch, heads, queries, keys, width] and a softmax; query and key are the given operands.
int64_t attention_flops(const View& view, size_t query, size_t key) {
  const int64_t keys = view.size(key, -2);
  const int64_t scores = view.numel(query) / std::max<int64_t>(view.size(query, -1), 1) * keys;
  return 4 * scores * view.size(query, -1) + kTranscendentalFlops * scores;
}

using Rule = int64_t (*)(const View&);
struct FlopRow {
  std::string_view name;
  Rule flops;
};

constexpr FlopRow kFlopRows[] = {
    {"aten::mm", [](const View& view) { return product_flops(view, 0); }},
    {"aten::bmm", [](const View& view) { return product_flops(view, 0); }},
    {"aten::mv", [](const View& view) { return product_flops(view, 0); }},
    {"aten::dot", [](const View& view) { return product_flops(view, 0); }},
    {"aten::addmm", [](const View& view) { return product_flops(view, 1); }},
    {"aten::addmv", [](const View& view) { return product_flops(view, 1); }},
    {"aten::baddbmm", [](const View& view) { return product_flops(view, 1); }},
    {"aten::addbmm", [](const View& view) { return product_flops(view, 1) * view.size(1, 0); }},
    {"aten::linear", [](const View& view) { return product_flops(view, 0); }},
    {"aten::convolution", convolution_flops},
    {"aten::convolution_backward", convolution_backward_flops},
    {"aten::_scaled_dot_product_flash_attention_for_cpu", [](const View& view) { return attention_flops(view, 0, 1); }},
    {"aten::_scaled_dot_product_flash_attention", [](const View& view) { return attention_flops(view, 0, 1); }},
    {"aten::_scaled_dot_product_efficient_attention", [](const View& view) { return attention_flops(view, 0, 1); }},
    // The backward recomputes the scores and computes three gradients: five products, where the forward has two.
    {"aten::_scaled_dot_product_flash_attention_for_cpu_backward",
     [](const View& view) { return attention_flops(view, 1, 2) * 5 / 2; }},
    {"aten::_scaled_dot_product_flash_attention_backward",
     [](const View& view) { return attention_flops(view, 1, 2) * 5 / 2; }},
};

constexpr std::string_view kTranscendental[] = {
    "aten::exp",           "aten::expm1",    "aten::log",         "aten::log1p",         "aten::log2",
    "aten::tanh",          "aten::sin",      "aten::cos",         "aten::tan",           "aten::erf",
    "aten::erfc",          "aten::sigmoid",  "aten::silu",        "aten::gelu",          "aten::mish",
    "aten::pow",           "aten::elu",      "aten::softplus",    "aten::gelu_backward", "aten::silu_backward",
    "aten::mish_backward", "aten::_softmax", "aten::_log_softmax"};

int64_t flops_of(const View& view) {
  const std::string_view name = view.node.op.handle().operator_name().name;
  for (const auto& row : kFlopRows) {
    if (row.name == name) return row.flops(view);
  }
  if (has_tag(view.node.op, Tag::kCopy) || has_tag(view.node.op, Tag::kGather)) return 0;
  int64_t elements = view.output_numel();
  for_each_operand_value(view.node,
                         [&](Value value) { elements = std::max(elements, view.graph.meta(value).numel()); });
  // A factorization or another heavy operator without a rule counts as a product with a square matrix.
  if (has_tag(view.node.op, Tag::kComputeHeavy)) return elements * std::max<int64_t>(view.size(0, -1), 1);
  const bool slow =
      std::find(std::begin(kTranscendental), std::end(kTranscendental), name) != std::end(kTranscendental);
  return slow ? elements * kTranscendentalFlops : elements;
}

int64_t bytes_of(const Graph& graph, const Node& node) {
  int64_t bytes = 0;
  for_each_operand_value(node, [&](Value value) { bytes += graph.meta(value).nbytes(); });
  for (const Value output : node.outputs) bytes += output ? graph.meta(output).nbytes() : 0;
  return bytes;
}

}  // namespace

Cost cost(const Graph& graph, const Node& node) {
  if (node.op.is_hop()) {
    Cost total;
    for (const auto& subgraph : node.subgraphs) {
      for (const auto& inner : subgraph->nodes()) {
        const Cost part = cost(*subgraph, inner);
        total.flops += part.flops;
        total.bytes += part.bytes;
      }
    }
    return total;
  }
  if (has_tag(node.op, Tag::kSharesStorage)) return {};
  return {flops_of({graph, node}), bytes_of(graph, node)};
}

int64_t nominal_ns(const Cost& cost) {
  if (cost.flops == 0 && cost.bytes == 0) return 0;
  return kCallNs + std::max(cost.flops / kNominalGigaflops, cost.bytes / kNominalGigabytes);
}

}  // namespace diptych::detail
