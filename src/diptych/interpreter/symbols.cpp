#include "diptych/interpreter/symbols.h"

#include <algorithm>

#include "diptych/base/check.h"
#include "diptych/graph/print.h"

namespace diptych::detail {
namespace {

// Multiplying by the divisor cancels it.
std::pair<SizeExpr, int64_t> without_divisor(const SizeExpr& size) {
  return {size * SizeExpr(size.divisor()), size.divisor()};
}

void add_symbols(const SizeExpr& size, std::set<std::string>& symbols) {
  for (const auto& [symbol, hint] : size.symbols()) symbols.insert(symbol);
}

// Adds the symbols that a node reads: those of its operands, and all in its subgraphs.
void add_needed(const Node& node, std::set<std::string>& symbols) {
  for (const Operand& operand : node.operands) {
    if (const auto* size = std::get_if<SizeExpr>(&operand)) add_symbols(*size, symbols);
    if (const auto* sizes = std::get_if<Sizes>(&operand)) {
      for (const SizeExpr& size : *sizes) add_symbols(size, symbols);
    }
    if (const auto* number = std::get_if<SizeNumber>(&operand)) {
      for (const auto& [symbol, hint] : number->symbols()) symbols.insert(symbol);
    }
  }
  for (const auto& subgraph : node.subgraphs) {
    if (!subgraph) continue;
    for (const auto& [symbol, hint] : size_symbols(*subgraph)) symbols.insert(symbol);
    for (const Node& inner : subgraph->nodes()) add_needed(inner, symbols);
  }
}

}  // namespace

SymbolBinder::SymbolBinder(const Graph& graph) : graph_name_(graph.name()) {
  for (const Node& node : graph.nodes()) add_needed(node, needed_);
  for (size_t i = 0; i < graph.inputs().size(); ++i) {
    paths_.push_back(graph.input_slots()[i].path);
    const auto& sizes = graph.meta(graph.inputs()[i]).sizes;
    for (size_t d = 0; d < sizes.size(); ++d) {
      if (sizes[d].is_static()) continue;
      const auto [scaled, scale] = without_divisor(sizes[d]);
      dimensions_.push_back({i, d, sizes[d], scaled, scale});
    }
  }
}

std::string SymbolBinder::describe(const Dimension& dimension) const {
  return fmt::format("input {} ({}) of graph '{}', dimension {} ({})", dimension.input, paths_[dimension.input],
                     graph_name_, dimension.dimension, dimension.size.str());
}

std::vector<int64_t> SymbolBinder::observe(const std::vector<at::Tensor>& inputs) const {
  std::vector<int64_t> observed;
  observed.reserve(dimensions_.size());
  for (const auto& dimension : dimensions_) {
    const auto& tensor = inputs[dimension.input];
    // An undefined tangent determines nothing; solve() finds out what depends on it.
    if (!tensor.defined()) {
      observed.push_back(-1);
      continue;
    }
    DIPTYCH_CHECK(static_cast<size_t>(tensor.dim()) > dimension.dimension,
                  "[interpreter] {} is missing: the tensor has {} dimensions; pass one of the traced rank",
                  describe(dimension), tensor.dim());
    observed.push_back(tensor.size(static_cast<int64_t>(dimension.dimension)));
  }
  return observed;
}

bool SymbolBinder::solve_one(const Dimension& dimension, int64_t observed,
                             std::map<std::string, int64_t>& known) const {
  if (dimension.size.has_floors()) return false;
  std::string unknown;
  for (const auto& [symbol, hint] : dimension.size.symbols()) {
    if (known.count(symbol) != 0) continue;
    if (!unknown.empty()) return false;
    unknown = symbol;
  }
  if (unknown.empty()) return false;
  auto trial = known;
  const auto at = [&](int64_t value) {
    trial[unknown] = value;
    return dimension.scaled.evaluate(trial);
  };
  const int64_t base = at(0), slope = at(1) - base;
  if (slope == 0 || at(2) - base != 2 * slope) return false;
  const int64_t distance = observed * dimension.scale - base;
  DIPTYCH_CHECK(distance % slope == 0,
                "[interpreter] {} is {}, which no value of {} yields; pass sizes of the traced form",
                describe(dimension), observed, unknown);
  known[unknown] = distance / slope;
  return true;
}

std::map<std::string, int64_t> SymbolBinder::deduce(const std::vector<int64_t>& observed) const {
  std::map<std::string, int64_t> known;
  for (bool progress = true; progress;) {
    progress = false;
    for (size_t i = 0; i < dimensions_.size(); ++i) {
      if (observed[i] >= 0 && solve_one(dimensions_[i], observed[i], known)) progress = true;
    }
  }
  return known;
}

std::optional<std::string> SymbolBinder::open_symbol() const {
  std::vector<int64_t> hints;
  for (const auto& dimension : dimensions_) hints.push_back(dimension.size.hint());
  const auto known = deduce(hints);
  const auto open =
      std::find_if(needed_.begin(), needed_.end(), [&](const auto& symbol) { return known.count(symbol) == 0; });
  return open == needed_.end() ? std::nullopt : std::optional(*open);
}

std::map<std::string, int64_t> SymbolBinder::solve(const std::vector<int64_t>& observed) const {
  const auto known = deduce(observed);
  for (size_t i = 0; i < dimensions_.size(); ++i) {
    const auto& dimension = dimensions_[i];
    for (const auto& [symbol, hint] : dimension.size.symbols()) {
      DIPTYCH_CHECK(
          known.count(symbol) != 0 || observed[i] < 0 || needed_.count(symbol) == 0,
          "[interpreter] {}: the size of {} does not follow from the inputs; pass a tensor that has it as a size",
          describe(dimension), symbol);
    }
    const auto symbols = dimension.size.symbols();
    const bool is_known =
        std::all_of(symbols.begin(), symbols.end(), [&](const auto& symbol) { return known.count(symbol.first) != 0; });
    if (observed[i] < 0 || !is_known) continue;
    const int64_t expected = dimension.size.evaluate(known);
    DIPTYCH_CHECK(expected == observed[i],
                  "[interpreter] {} is {}, expected {} from the other inputs; pass sizes that agree",
                  describe(dimension), observed[i], expected);
  }
  return known;
}

std::vector<int64_t> sizes_by(const Sizes& sizes, const std::map<std::string, int64_t>& symbols,
                              const at::Tensor& tensor) {
  std::vector<int64_t> values;
  for (size_t d = 0; d < sizes.size(); ++d) {
    const auto wanted = sizes[d].symbols();
    const bool is_known =
        std::all_of(wanted.begin(), wanted.end(), [&](const auto& symbol) { return symbols.contains(symbol.first); });
    const bool has_size = tensor.defined() && tensor.dim() > static_cast<int64_t>(d);
    const int64_t found = has_size ? tensor.size(static_cast<int64_t>(d)) : -1;
    values.push_back(is_known ? sizes[d].evaluate(symbols) : found);
  }
  return values;
}

}  // namespace diptych::detail
