#include "diptych/native/prepare/prepare.h"

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "diptych/base/log.h"
#include "diptych/graph/map_sizes.h"
#include "diptych/graph/rewrite.h"
#include "diptych/native/call/body_sizes.h"
#include "diptych/native/call/kernel_code.h"
#include "diptych/native/codegen/compiled_kernel.h"
#include "diptych/native/fusion/fuse.h"
#include "diptych/native/fusion/fused_node.h"
#include "diptych/native/fusion/single_node.h"
#include "diptych/native/lower/lower_group.h"
#include "diptych/native/lower/node_arguments.h"
#include "diptych/native/prepare/at_all_sizes.h"
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
bool holds_plain_floats(const Graph& graph, const Node& node) {
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
  return is_lowered_to_kernels(graph, node) || !is_of_these_families(node.op) || !holds_plain_floats(graph, node) ||
         !NodeArguments(graph, node).holds_numbers();
}

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

// Which composites are kept: decided by their text, since blocks repeat them, and in the order in which they are asked
// about, so that a graph at other sizes gets the same answers.
class CompositeChoices {
 public:
  bool keeps(const Graph& graph, const Node& node) {
    if (next_ < answers_.size()) return answers_[next_++];
    answers_.push_back(decide(graph, node));
    ++next_;
    return answers_.back();
  }
  void ask_again() { next_ = 0; }

 private:
  bool decide(const Graph& graph, const Node& node) {
    if (is_kept(graph, node)) return true;
    const Graph one = graph_of_one(graph, node);
    const auto [entry, is_new] = decomposes_.emplace(one.code(), false);
    if (is_new) entry->second = decomposes_into_kernels(one, node.op);
    return !entry->second;
  }

  std::map<std::string, bool> decomposes_;  // by text
  std::vector<bool> answers_;
  size_t next_ = 0;
};

Graph decomposed(const Graph& graph, CompositeChoices& choices);

Graph with_decomposed_bodies(const Graph& graph, CompositeChoices& choices) {
  const bool has_bodies = std::any_of(graph.nodes().begin(), graph.nodes().end(), [](const Node& node) {
    return !node.subgraphs.empty() && may_fuse_bodies(node);
  });
  if (!has_bodies) return graph;
  Rewriter rewriter(graph);
  rewriter.copy_inputs();
  for (const Node& node : graph.nodes()) {
    Node copy = node;
    for (auto& body : copy.subgraphs) {
      if (may_fuse_bodies(node)) body = std::make_shared<const Graph>(simplify(decomposed(*body, choices), {}));
    }
    rewriter.copy_node(copy);
  }
  return rewriter.finish();
}

Graph decomposed(const Graph& graph, CompositeChoices& choices) {
  const auto keeps = [&](const Graph& from, const Node& node) { return choices.keeps(from, node); };
  return decompose(with_decomposed_bodies(graph, choices), keeps);
}

Graph decomposed_at_all_sizes(const Graph& graph, CompositeChoices& choices) {
  if (!has_dynamic_sizes(graph)) return decomposed(graph, choices);
  std::string why;
  const auto pass = [&](const Graph& at_sizes) {
    choices.ask_again();
    return decomposed(at_sizes, choices);
  };
  if (auto result = at_all_sizes(graph, pass, why)) return *std::move(result);
  log(Log::kKernels, "graph {} keeps its composite operators: {}", graph.name(), why);
  return graph;
}

}  // namespace

bool becomes_kernel(const Graph& body) {
  std::vector<SizeExpr> symbols;
  const auto kernel = lower_group(body, nullptr, &symbols);
  return kernel && !codegen_problem(*kernel) && !BodySizes(body).problem(sizes_of_call(body, symbols));
}

Graph with_composites_in_parts(const Graph& graph) {
  CompositeChoices choices;
  const auto keeps = [&](const Graph& from, const Node& node) { return choices.keeps(from, node); };
  return run_pass("decompose", graph, [&](const Graph& from) { return decompose(from, keeps); });
}

Graph in_kernel_operators(const Graph& graph) {
  CompositeChoices choices;
  return simplify(
      run_pass("decompose", graph, [&](const Graph& from) { return decomposed_at_all_sizes(from, choices); }), {});
}

}  // namespace diptych::detail
