#include "diptych/passes/unify_sizes.h"

#include <fmt/format.h>
#include <algorithm>

#include "diptych/base/error.h"
#include "diptych/graph/identical.h"
#include "diptych/graph/map_sizes.h"
#include "diptych/graph/operand.h"
#include "diptych/graph/size_fitter.h"

namespace diptych::detail {
namespace {

/// Thrown if the graphs differ in something that no symbols explain.
struct Different {
  std::string what;
};

void require(bool holds, const char* what) {
  if (!holds) throw Different{what};
}

bool are_ints(const at::Scalar& a, const at::Scalar& b) { return a.isIntegral(false) && b.isIntegral(false); }

// Whether the operands are alike in everything but numbers.
bool alike(const WrappedNumber& a, const WrappedNumber& b) {
  if (a.dtype == at::kLong && b.dtype == at::kLong) return are_ints(a.number, b.number);
  return a.dtype == at::kDouble && b.dtype == at::kDouble && a.number.isFloatingPoint() && b.number.isFloatingPoint();
}

bool alike(const Operand& a, const Operand& b) {
  const auto* wrapped = std::get_if<WrappedNumber>(&a);
  const auto* other = std::get_if<WrappedNumber>(&b);
  if (wrapped != nullptr && other != nullptr) return alike(*wrapped, *other) || identical(a, b);
  const auto* x = std::get_if<c10::IValue>(&a);
  const auto* y = std::get_if<c10::IValue>(&b);
  if (x == nullptr || y == nullptr) return identical(a, b);
  if (x->isInt() && y->isInt()) return true;
  if (x->isDouble() && y->isDouble()) return true;
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
  Unifier(c10::ArrayRef<Graph> graphs, SizeFitter& fitter, bool is_subgraph = false)
      : graphs_(graphs), fitter_(fitter), is_subgraph_(is_subgraph) {}

  Graph run() const {
    for (const Graph& graph : graphs_) check_alike(first(), graph);
    learn();
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
  /// `values(graph)` returns the integers of one place.
  template <class Values>
  std::optional<Sizes> try_fit(const Values& values, std::string& misfit) const;
  template <class Values>
  Sizes fit(const Values& values, const std::string& where) const;
  template <class Number>
  Operand fit_number(const Number& number, const std::string& where) const;
  void learn() const;
  std::string title(size_t node) const { return first().nodes()[node].op.name(); }

  c10::ArrayRef<Graph> graphs_;
  SizeFitter& fitter_;
  bool is_subgraph_;
};

// Dimensions show best which quotients are rounded; numbers made of these quotients are found once they are known.
void Unifier::learn() const {
  std::vector<int64_t> entry(graphs_.size());
  for (size_t i = 0; i < first().num_values(); ++i) {
    const Value value{static_cast<int32_t>(i)};
    for (size_t d = 0; d < first().meta(value).sizes.size(); ++d) {
      for (size_t g = 0; g < graphs_.size(); ++g) entry[g] = graphs_[g].meta(value).sizes[d].hint();
      fitter_.learn(entry);
    }
  }
}

template <class Values>
std::optional<Sizes> Unifier::try_fit(const Values& values, std::string& misfit) const {
  std::vector<std::vector<int64_t>> lists;
  for (const Graph& graph : graphs_) lists.push_back(values(graph));
  Sizes sizes;
  std::vector<int64_t> entry(lists.size());
  for (size_t i = 0; i < lists[0].size(); ++i) {
    for (size_t g = 0; g < lists.size(); ++g) {
      entry[g] = lists[g][i];
    }
    const auto size = fitter_.fit(entry);
    if (!size) {
      misfit = fmt::format("{} to {} is not a polynomial", entry.front(), entry.back());
      return std::nullopt;
    }
    sizes.push_back(*size);
  }
  return sizes;
}

template <class Values>
Sizes Unifier::fit(const Values& values, const std::string& where) const {
  std::string misfit;
  auto sizes = try_fit(values, misfit);
  if (!sizes) throw Different{where + ": " + misfit};
  return std::move(*sizes);
}

// `number(graph)` returns the number of one place, which has the same type in all graphs.
template <class Number>
Operand Unifier::fit_number(const Number& number, const std::string& where) const {
  if (number(first()).isInt()) {
    return fit([&](const Graph& graph) { return std::vector{number(graph).toInt()}; }, where)[0];
  }
  std::vector<double> values;
  for (const Graph& graph : graphs_) values.push_back(number(graph).toDouble());
  const auto found = fitter_.fit_number(values);
  if (!found) {
    throw Different{fmt::format("{}: {} to {} is not a known function of sizes", where, values.front(), values.back())};
  }
  return *found;
}

TensorMeta Unifier::meta(Value value) const {
  TensorMeta meta = first().meta(value);
  if (std::all_of(graphs_.begin(), graphs_.end(), [&](const Graph& graph) { return graph.meta(value) == meta; })) {
    return meta;
  }
  const std::string where = fmt::format("%{}", value.id);
  std::string misfit;
  auto sizes = try_fit([&](const Graph& graph) { return graph.meta(value).size_hints(); }, misfit);
  // Only the kernel that makes a workspace knows its size, and nobody else reads it.
  const bool is_workspace = !sizes && !is_subgraph_ && meta.sizes.size() == 1 && meta.dtype == at::kByte;
  if (is_workspace) {
    meta.sizes = {SizeExpr::symbol(unknown_size_name(value), meta.sizes[0].hint())};
    return meta;
  }
  if (!sizes) throw Different{where + ": " + misfit};
  meta.sizes = std::move(*sizes);
  meta.strides = fit([&](const Graph& graph) { return graph.meta(value).stride_hints(); }, where);
  return meta;
}

Operand Unifier::operand(size_t node, size_t index) const {
  const auto of = [&](const Graph& graph) -> const Operand& { return graph.nodes()[node].operands[index]; };
  const Operand& known = of(first());
  if (std::all_of(graphs_.begin(), graphs_.end(), [&](const Graph& graph) { return identical(of(graph), known); })) {
    return known;
  }
  // Operands that are alike and not identical are numbers or lists of integers.
  if (std::holds_alternative<WrappedNumber>(known)) {
    return fit_number([&](const Graph& graph) { return c10::IValue(std::get<WrappedNumber>(of(graph)).number); },
                      title(node));
  }
  const auto constant = [&](const Graph& graph) { return std::get<c10::IValue>(of(graph)); };
  if (!constant(first()).isIntList()) return fit_number(constant, title(node));
  return fit([&](const Graph& graph) { return constant(graph).toIntVector(); }, title(node));
}

std::shared_ptr<const Graph> Unifier::subgraph(size_t node, size_t index) const {
  std::vector<Graph> subgraphs;
  for (const Graph& graph : graphs_) {
    const auto& subgraph = graph.nodes()[node].subgraphs[index];
    if (!subgraph) return nullptr;
    subgraphs.push_back(*subgraph);
  }
  return std::make_shared<const Graph>(Unifier(subgraphs, fitter_, /*is_subgraph=*/true).run());
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
    SizeFitter fitter(points, num_symbols);
    return Unifier(graphs, fitter).run();
  } catch (const Different& difference) {
    if (why != nullptr) *why = difference.what;
    return std::nullopt;
  }
}

}  // namespace diptych::detail
