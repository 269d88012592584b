#include "diptych/graph/map_sizes.h"

#include <fmt/format.h>
#include <algorithm>

#include "diptych/base/error.h"
#include "diptych/graph/identical.h"
#include "diptych/graph/operand.h"
#include "diptych/graph/rewrite.h"
#include "diptych/graph/subgraphs.h"

namespace diptych::detail {
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

Operand number_operand(const at::Scalar& number, bool is_tensor) {
  if (is_tensor) return WrappedNumber{number, number.type()};
  return c10::IValue(number);
}

// `is_tensor`: the operator takes a tensor in this place.
Operand instantiate(const Operand& operand, bool is_tensor, const SymbolMap& symbols) {
  if (const auto* size = std::get_if<SizeExpr>(&operand)) return number_operand(size->evaluate(symbols), is_tensor);
  if (const auto* number = std::get_if<SizeNumber>(&operand)) {
    return number_operand(number->evaluate(symbols), is_tensor);
  }
  const auto* sizes = std::get_if<Sizes>(&operand);
  if (sizes == nullptr) return operand;
  std::vector<int64_t> values;
  for (const SizeExpr& size : *sizes) values.push_back(size.evaluate(symbols));
  return c10::IValue(std::move(values));
}

bool takes_tensor(const Node& node, size_t operand) {
  return operand_type(node.op, operand).kind == OperandKind::kTensor;
}

bool is_dynamic(const Operand& operand) {
  if (const auto* size = std::get_if<SizeExpr>(&operand)) return !size->is_static();
  if (const auto* number = std::get_if<SizeNumber>(&operand)) return !number->symbols().empty();
  const auto* sizes = std::get_if<Sizes>(&operand);
  return sizes != nullptr &&
         std::any_of(sizes->begin(), sizes->end(), [](const SizeExpr& size) { return !size.is_static(); });
}

// Returns `symbols` together with the symbols of unknown sizes (see unknown_size_name()), whose values only `traced`
// has.
SymbolMap with_unknown_sizes(const Graph& graph, SymbolMap symbols, const Graph& traced) {
  for (size_t i = 0; i < std::min(graph.num_values(), traced.num_values()); ++i) {
    const Value value{static_cast<int32_t>(i)};
    const auto& sizes = graph.meta(value).sizes;
    if (sizes.size() != 1 || traced.meta(value).sizes.size() != 1) continue;
    for (const auto& [symbol, hint] : sizes[0].symbols()) symbols.emplace(symbol, traced.meta(value).sizes[0].hint());
  }
  return symbols;
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
                                const Node& owner = graph.nodes()[node];
                                return instantiate(owner.operands[operand], takes_tensor(owner, operand), symbols);
                              },
                              [&](size_t node, size_t subgraph) -> std::shared_ptr<const Graph> {
                                const auto& owned = graph.nodes()[node].subgraphs[subgraph];
                                return owned ? std::make_shared<const Graph>(instantiate(*owned, symbols)) : nullptr;
                              },
                          });
}

std::string unknown_size_name(Value value) { return fmt::format("u{}", value.id); }

bool is_instance(const Graph& graph, const SymbolMap& symbols, const Graph& traced) {
  try {
    // Copying a graph may renumber its values, so `traced` is copied as well.
    const Graph copy = instantiate(traced, {});
    return same_but_origins(instantiate(graph, with_unknown_sizes(graph, symbols, copy)), copy);
  } catch (const UserError&) {
    return false;  // an expression has no value at these sizes
  }
}

Node instantiate(const Node& node, const SymbolMap& symbols) {
  Node copy = node;
  for (size_t i = 0; i < copy.operands.size(); ++i) {
    copy.operands[i] = instantiate(node.operands[i], takes_tensor(node, i), symbols);
  }
  for (auto& subgraph : copy.subgraphs) {
    if (subgraph) subgraph = std::make_shared<const Graph>(instantiate(*subgraph, symbols));
  }
  return copy;
}

bool has_dynamic_sizes(const Node& node) {
  return std::any_of(node.operands.begin(), node.operands.end(), is_dynamic) ||
         any_subgraph(node, [](const Graph& subgraph) { return has_dynamic_sizes(subgraph); });
}

bool has_dynamic_sizes(const Graph& graph) {
  for (size_t i = 0; i < graph.num_values(); ++i) {
    if (!graph.meta(Value{static_cast<int32_t>(i)}).is_static()) return true;
  }
  return std::any_of(graph.nodes().begin(), graph.nodes().end(),
                     [](const Node& node) { return has_dynamic_sizes(node); });
}

}  // namespace diptych::detail
