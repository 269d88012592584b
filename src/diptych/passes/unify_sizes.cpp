#include "diptych/passes/unify_sizes.h"

#include <algorithm>

#include "diptych/base/error.h"
#include "diptych/graph/identical.h"
#include "diptych/graph/map_sizes.h"
#include "diptych/graph/operand.h"

namespace diptych {
namespace {

/// The graphs differ in something that no symbols explain.
struct Different {
  std::string what;
};

void require(bool holds, const char* what) {
  if (!holds) throw Different{what};
}

// Alike in all but integers.
bool alike(const Operand& a, const Operand& b) {
  const auto* x = std::get_if<c10::IValue>(&a);
  const auto* y = std::get_if<c10::IValue>(&b);
  if (x == nullptr || y == nullptr) return identical(a, b);
  if (x->isInt() && y->isInt()) return true;
  if (x->isIntList() && y->isIntList()) return x->toIntVector().size() == y->toIntVector().size();
  return identical(a, b);
}

bool alike(const TensorMeta& a, const TensorMeta& b) {
  return a.dtype == b.dtype && a.device == b.device && a.requires_grad == b.requires_grad &&
         a.sizes.size() == b.sizes.size() && a.strides.size() == b.strides.size();
}

void check_alike(const Graph& a, const Graph& b);

void check_alike(size_t index, const Node& a, const Node& b) {
  const bool is_same = a.op == b.op && a.grad_enabled == b.grad_enabled && a.subgraphs.size() == b.subgraphs.size() &&
                       std::equal(a.outputs.begin(), a.outputs.end(), b.outputs.begin(), b.outputs.end()) &&
                       std::equal(a.returns.begin(), a.returns.end(), b.returns.begin(), b.returns.end()) &&
                       std::equal(a.operands.begin(), a.operands.end(), b.operands.begin(), b.operands.end(),
                                  [](const Operand& x, const Operand& y) { return alike(x, y); });
  if (!is_same) throw Different{fmt::format("node {}, {} and {}", index, a.op.name(), b.op.name())};
  for (size_t i = 0; i < a.subgraphs.size(); ++i) {
    require((a.subgraphs[i] == nullptr) == (b.subgraphs[i] == nullptr), "which subgraphs there are");
    if (a.subgraphs[i]) check_alike(*a.subgraphs[i], *b.subgraphs[i]);
  }
}

void check_alike(const Graph& a, const Graph& b) {
  require(a.nodes().size() == b.nodes().size(), "the number of nodes");
  require(a.inputs() == b.inputs() && a.num_values() == b.num_values(), "the number of values");
  require(a.outputs() == b.outputs(), "which values are returned");
  require(std::equal(a.constants().begin(), a.constants().end(), b.constants().begin(), b.constants().end(),
                     identical_tensors),
          "a constant");
  for (size_t i = 0; i < a.nodes().size(); ++i) check_alike(i, a.nodes()[i], b.nodes()[i]);
  for (size_t i = 0; i < a.num_values(); ++i) {
    const Value value{static_cast<int32_t>(i)};
    if (!alike(a.meta(value), b.meta(value))) throw Different{fmt::format("the type of %{}", i)};
  }
}

class Unifier {
 public:
  Unifier(c10::ArrayRef<Graph> graphs, c10::ArrayRef<SymbolValues> points, size_t num_symbols)
      : graphs_(graphs), points_(points), num_symbols_(num_symbols) {}

  Graph run() const {
    for (const Graph& graph : graphs_) check_alike(first(), graph);
    return map_sizes(first(), {
                                  [&](Value value) { return meta(value); },
                                  [&](size_t node, size_t index) { return operand(node, index); },
                                  [&](size_t node, size_t index) { return subgraph(node, index); },
                              });
  }

 private:
  const Graph& first() const { return graphs_[0]; }
  TensorMeta meta(Value value) const;
  Operand operand(size_t node, size_t index) const;
  std::shared_ptr<const Graph> subgraph(size_t node, size_t index) const;
  /// `values(graph)` are the integers of one place.
  template <class Values>
  Sizes fit(const Values& values, const std::string& where) const;
  std::string title(size_t node) const { return first().nodes()[node].op.name(); }

  c10::ArrayRef<Graph> graphs_;
  c10::ArrayRef<SymbolValues> points_;
  size_t num_symbols_;
};

template <class Values>
Sizes Unifier::fit(const Values& values, const std::string& where) const {
  std::vector<std::vector<int64_t>> lists;
  for (const Graph& graph : graphs_) lists.push_back(values(graph));
  Sizes sizes;
  std::vector<int64_t> entry(lists.size());
  for (size_t i = 0; i < lists[0].size(); ++i) {
    for (size_t g = 0; g < lists.size(); ++g) {
      entry[g] = lists[g][i];
    }
    const auto size = fit_size(entry, points_, num_symbols_);
    if (!size) throw Different{fmt::format("{}: {} to {} is no polynomial", where, entry.front(), entry.back())};
    sizes.push_back(*size);
  }
  return sizes;
}

TensorMeta Unifier::meta(Value value) const {
  TensorMeta meta = first().meta(value);
  if (std::all_of(graphs_.begin(), graphs_.end(), [&](const Graph& graph) { return graph.meta(value) == meta; })) {
    return meta;
  }
  const std::string where = fmt::format("%{}", value.id);
  meta.sizes = fit([&](const Graph& graph) { return graph.meta(value).size_hints(); }, where);
  meta.strides = fit([&](const Graph& graph) { return graph.meta(value).stride_hints(); }, where);
  return meta;
}

Operand Unifier::operand(size_t node, size_t index) const {
  const auto of = [&](const Graph& graph) -> const Operand& { return graph.nodes()[node].operands[index]; };
  const Operand& known = of(first());
  if (std::all_of(graphs_.begin(), graphs_.end(), [&](const Graph& graph) { return identical(of(graph), known); })) {
    return known;
  }
  // Alike and not identical: an integer or a list of them.
  const auto constant = [&](const Graph& graph) { return std::get<c10::IValue>(of(graph)); };
  if (constant(first()).isInt()) {
    return fit([&](const Graph& graph) { return std::vector{constant(graph).toInt()}; }, title(node))[0];
  }
  return fit([&](const Graph& graph) { return constant(graph).toIntVector(); }, title(node));
}

std::shared_ptr<const Graph> Unifier::subgraph(size_t node, size_t index) const {
  std::vector<Graph> subgraphs;
  for (const Graph& graph : graphs_) {
    const auto& subgraph = graph.nodes()[node].subgraphs[index];
    if (!subgraph) return nullptr;
    subgraphs.push_back(*subgraph);
  }
  return std::make_shared<const Graph>(Unifier(subgraphs, points_, num_symbols_).run());
}

}  // namespace

bool same_structure(const Graph& a, const Graph& b) {
  try {
    check_alike(a, b);
    return true;
  } catch (const Different&) {
    return false;
  }
}

std::optional<Graph> unify_sizes(c10::ArrayRef<Graph> graphs, c10::ArrayRef<SymbolValues> points, size_t num_symbols,
                                 std::string* why) {
  try {
    return Unifier(graphs, points, num_symbols).run();
  } catch (const Different& difference) {
    if (why != nullptr) *why = difference.what;
    return std::nullopt;
  }
}

}  // namespace diptych
