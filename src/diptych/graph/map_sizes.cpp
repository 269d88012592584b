#include "diptych/graph/map_sizes.h"

#include <algorithm>

#include "diptych/graph/rewrite.h"

namespace diptych {
namespace {

using SymbolMap = std::map<std::string, int64_t>;

Sizes instantiate(const Sizes& sizes, const SymbolMap& symbols) {
  Sizes values;
  for (const SizeExpr& size : sizes) values.emplace_back(size.evaluate(symbols));
  return values;
}

TensorMeta instantiate(TensorMeta meta, const SymbolMap& symbols) {
  meta.sizes = instantiate(meta.sizes, symbols);
  meta.strides = instantiate(meta.strides, symbols);
  return meta;
}

Operand instantiate(const Operand& operand, const SymbolMap& symbols) {
  if (const auto* size = std::get_if<SizeExpr>(&operand)) return c10::IValue(size->evaluate(symbols));
  const auto* sizes = std::get_if<Sizes>(&operand);
  if (sizes == nullptr) return operand;
  std::vector<int64_t> values;
  for (const SizeExpr& size : *sizes) values.push_back(size.evaluate(symbols));
  return c10::IValue(std::move(values));
}

bool is_dynamic(const Operand& operand) {
  if (const auto* size = std::get_if<SizeExpr>(&operand)) return !size->is_static();
  const auto* sizes = std::get_if<Sizes>(&operand);
  return sizes != nullptr &&
         std::any_of(sizes->begin(), sizes->end(), [](const SizeExpr& size) { return !size.is_static(); });
}

}  // namespace

Graph map_sizes(const Graph& graph, const SizeMapping& mapping) {
  Rewriter rewriter(graph);
  rewriter.copy_inputs();
  for (const Value input : graph.inputs()) rewriter.graph().mutable_meta(rewriter[input]) = mapping.meta(input);
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    Node node = graph.nodes()[i];
    for (size_t j = 0; j < node.operands.size(); ++j) node.operands[j] = mapping.operand(i, j);
    for (size_t j = 0; j < node.subgraphs.size(); ++j) node.subgraphs[j] = mapping.subgraph(i, j);
    rewriter.copy_node(node);
    for (const Value output : node.outputs) {
      if (output) rewriter.graph().mutable_meta(rewriter[output]) = mapping.meta(output);
    }
  }
  return rewriter.finish();
}

Graph instantiate(const Graph& graph, const SymbolMap& symbols) {
  return map_sizes(graph, {
                              [&](Value value) { return instantiate(graph.meta(value), symbols); },
                              [&](size_t node, size_t operand) {
                                return instantiate(graph.nodes()[node].operands[operand], symbols);
                              },
                              [&](size_t node, size_t subgraph) -> std::shared_ptr<const Graph> {
                                const auto& owned = graph.nodes()[node].subgraphs[subgraph];
                                return owned ? std::make_shared<const Graph>(instantiate(*owned, symbols)) : nullptr;
                              },
                          });
}

Node instantiate(const Node& node, const SymbolMap& symbols) {
  Node copy = node;
  for (Operand& operand : copy.operands) operand = instantiate(operand, symbols);
  for (auto& subgraph : copy.subgraphs) {
    if (subgraph) subgraph = std::make_shared<const Graph>(instantiate(*subgraph, symbols));
  }
  return copy;
}

bool has_dynamic_sizes(const Node& node) {
  return std::any_of(node.operands.begin(), node.operands.end(), is_dynamic) ||
         std::any_of(node.subgraphs.begin(), node.subgraphs.end(),
                     [](const auto& subgraph) { return subgraph && has_dynamic_sizes(*subgraph); });
}

bool has_dynamic_sizes(const Graph& graph) {
  for (size_t i = 0; i < graph.num_values(); ++i) {
    if (!graph.meta(Value{static_cast<int32_t>(i)}).is_static()) return true;
  }
  return std::any_of(graph.nodes().begin(), graph.nodes().end(),
                     [](const Node& node) { return has_dynamic_sizes(node); });
}

}  // namespace diptych
