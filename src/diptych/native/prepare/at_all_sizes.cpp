#include "diptych/native/prepare/at_all_sizes.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <map>
#include <vector>

#include "diptych/base/error.h"
#include "diptych/graph/map_sizes.h"
#include "diptych/graph/print.h"
#include "diptych/graph/subgraphs.h"
#include "diptych/passes/unify_sizes.h"

namespace diptych::detail {
namespace {

constexpr size_t kMorePoints = 2;  // than a polynomial needs: they show whether it is one

// The sizes of one point: the hints first, and then larger ones that are no function of each other. `step`: sizes that
// are halved or quartered have to be multiples.
SymbolValues point_of(const std::map<std::string, int64_t>& symbols, size_t number, int64_t step) {
  constexpr std::array<size_t, kMostSymbols> kStrides = {1, 7, 12, 19};
  constexpr size_t kPeriod = 31;
  SymbolValues point{};
  size_t index = 0;
  for (const auto& [symbol, hint] : symbols) {
    const auto further = number == 0 ? 0 : 1 + number * kStrides[index] % kPeriod;
    point[index++] = hint + step * static_cast<int64_t>(further);
  }
  return point;
}

bool is_rounded(const SizeExpr& size) { return size.has_floors(); }
bool is_rounded(const Sizes& sizes) {
  return std::any_of(sizes.begin(), sizes.end(), [](const SizeExpr& size) { return is_rounded(size); });
}

bool is_rounded(const Operand& operand) {
  if (const auto* size = std::get_if<SizeExpr>(&operand)) return is_rounded(*size);
  if (const auto* sizes = std::get_if<Sizes>(&operand)) return is_rounded(*sizes);
  const auto* number = std::get_if<SizeNumber>(&operand);
  return number != nullptr && (is_rounded(number->top) || is_rounded(number->bottom));
}

// Whether a size is rounded down: it may be the same at all points and another one elsewhere, which a polynomial of few
// points can't.
bool has_rounded_sizes(const Graph& graph) {
  for (size_t i = 0; i < graph.num_values(); ++i) {
    const TensorMeta& meta = graph.meta(Value{static_cast<int32_t>(i)});
    if (is_rounded(meta.sizes) || is_rounded(meta.strides)) return true;
  }
  return std::any_of(graph.nodes().begin(), graph.nodes().end(), [](const Node& node) {
    return std::any_of(node.operands.begin(), node.operands.end(),
                       [](const Operand& operand) { return is_rounded(operand); }) ||
           any_subgraph(node, has_rounded_sizes);
  });
}

std::optional<Graph> unified(const Graph& graph, const std::map<std::string, int64_t>& symbols,
                             const std::function<Graph(const Graph&)>& pass, int64_t step, std::string& why) {
  std::vector<SymbolValues> points;
  std::vector<Graph> graphs;
  for (size_t i = 0; i < num_fit_points(symbols.size()) + kMorePoints; ++i) {
    points.push_back(point_of(symbols, i, step));
    std::map<std::string, int64_t> values = symbols;
    size_t index = 0;
    for (auto& [symbol, value] : values) value = points.back()[index++];
    graphs.push_back(pass(instantiate(graph, values)));
  }
  return unify_sizes(graphs, points, symbols.size(), &why);
}

}  // namespace

std::optional<Graph> at_all_sizes(const Graph& graph, const std::function<Graph(const Graph&)>& pass,
                                  std::string& why) {
  const auto symbols = size_symbols(graph);
  if (symbols.size() > kMostSymbols) {
    why = "it has too many symbols";
    return std::nullopt;
  }
  if (has_rounded_sizes(graph)) {
    why = "a size of it is rounded";
    return std::nullopt;
  }
  for (const int64_t step : {1, 24}) {
    try {
      if (auto result = unified(graph, symbols, pass, step, why)) return result;
    } catch (const UserError& error) {
      why = error.what();  // a size is no integer at some point
    } catch (const c10::Error& error) {
      why = error.what_without_backtrace();  // or an operator refuses it
    }
  }
  return std::nullopt;
}

}  // namespace diptych::detail
