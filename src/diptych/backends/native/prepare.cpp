#include "diptych/backends/native/prepare.h"

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "diptych/backends/native/codegen/compiled_kernel.h"
#include "diptych/backends/native/fused_node.h"
#include "diptych/backends/native/fusion/fuse.h"
#include "diptych/backends/native/fusion/single_node.h"
#include "diptych/backends/native/lower/lower_group.h"
#include "diptych/graph/rewrite.h"
#include "diptych/ops/decompositions.h"
#include "diptych/ops/tags.h"
#include "diptych/passes/decompose.h"
#include "diptych/passes/run_pass.h"
#include "diptych/passes/simplify.h"

namespace diptych::detail {
namespace {

constexpr std::array<std::string_view, 6> kFamilies = {"activation",    "dropout",   "loss",
                                                       "normalization", "pointwise", "softmax"};

bool is_of_these_families(const Op& op) {
  const Decomposition* const row = op.is_hop() ? nullptr : find_decomposition(op);
  return row != nullptr && std::find(kFamilies.begin(), kFamilies.end(), row->family) != kFamilies.end();
}

// CPU tensors with elements, of floats or, for masks and classes, of anything real.
bool has_plain_values(const Graph& graph, const Node& node) {
  bool all = true, any_float = false;
  const auto look = [&](Value value) {
    const TensorMeta& meta = graph.meta(value);
    all = all && meta.is_static() && meta.numel() > 0 && meta.device.is_cpu() && !c10::isComplexType(meta.dtype);
    any_float = any_float || c10::isFloatingType(meta.dtype);
  };
  for_each_operand_value(node, look);
  for (const Value output : node.outputs) {
    if (output) look(output);
  }
  return all && any_float;
}

bool is_kept(const Graph& graph, const Node& node) {
  return is_lowered_to_kernels(graph, node) || !is_of_these_families(node.op) || !has_plain_values(graph, node);
}

// Whether composites decompose into kernels, by their text: blocks repeat them.
using KnownComposites = std::map<std::string, bool>;

// Whether the nodes that a composite decomposes into come to kernels, but for draws, and views, which cost nothing, and
// for what is a number or makes tensors from nothing.
bool decomposes_into_kernels(const Graph& one, const Op& op) {
  const Graph parts = fuse(simplify(decompose(one, is_kept), {}), becomes_kernel);
  return std::all_of(parts.nodes().begin(), parts.nodes().end(), [&](const Node& part) {
    if (is_fused(part) || has_tag(part.op, Tag::kSharesStorage) || has_tag(part.op, Tag::kRandom)) return true;
    int64_t elements = 0;
    for_each_operand_value(part, [&](Value value) { elements = std::max(elements, parts.meta(value).numel()); });
    for (const Value value : part.outputs) elements = std::max(elements, parts.meta(value).numel());
    return elements <= 1 || part.op == op;
  });
}

Graph prepared(const Graph& graph, KnownComposites& known);

Graph with_prepared_bodies(const Graph& graph, KnownComposites& known) {
  const bool has_bodies = std::any_of(graph.nodes().begin(), graph.nodes().end(), [](const Node& node) {
    return !node.subgraphs.empty() && may_fuse_bodies(node);
  });
  if (!has_bodies) return graph;
  Rewriter rewriter(graph);
  rewriter.copy_inputs();
  for (const Node& node : graph.nodes()) {
    Node copy = node;
    for (auto& body : copy.subgraphs) {
      if (may_fuse_bodies(node)) body = std::make_shared<const Graph>(prepared(*body, known));
    }
    rewriter.copy_node(copy);
  }
  return rewriter.finish();
}

Graph in_parts(const Graph& graph, KnownComposites& known) {
  const auto keeps = [&](const Graph& from, const Node& node) {
    if (is_kept(from, node)) return true;
    const Graph one = graph_of_one(from, node);
    const auto [entry, is_new] = known.emplace(one.code(), false);
    if (is_new) entry->second = decomposes_into_kernels(one, node.op);
    return !entry->second;
  };
  return run_pass("decompose", graph, [&](const Graph& from) { return decompose(from, keeps); });
}

Graph prepared(const Graph& graph, KnownComposites& known) {
  return simplify(in_parts(with_prepared_bodies(graph, known), known), {});
}

}  // namespace

bool becomes_kernel(const Graph& body) {
  const auto kernel = lower_group(body);
  return kernel && !codegen_problem(*kernel);
}

Graph with_composites_in_parts(const Graph& graph) {
  KnownComposites known;
  return in_parts(graph, known);
}

Graph in_kernel_operators(const Graph& graph) {
  KnownComposites known;
  return prepared(graph, known);
}

}  // namespace diptych::detail
