#include "diptych/graph/verify.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "diptych/base/check.h"
#include "diptych/graph/names.h"
#include "diptych/graph/operand.h"
#include "diptych/graph/print.h"

namespace diptych {

using namespace detail;
namespace {

// Each check returns what is wrong, or an empty string.

std::string sizes_problem(const TensorMeta& meta) {
  if (meta.sizes.size() != meta.strides.size()) {
    return fmt::format("has {} sizes and {} strides", meta.sizes.size(), meta.strides.size());
  }
  int64_t bytes = static_cast<int64_t>(c10::elementSize(meta.dtype));
  bool is_empty = false;
  for (const auto& size : meta.sizes) is_empty = is_empty || size.hint() == 0;
  for (size_t i = 0; i < meta.sizes.size(); ++i) {
    if (meta.sizes[i].hint() < 0) return fmt::format("has the negative size {}", meta.sizes[i].str());
    if (meta.strides[i].hint() < 0) return fmt::format("has the negative stride {}", meta.strides[i].str());
    if (!is_empty && __builtin_mul_overflow(bytes, meta.sizes[i].hint(), &bytes))
      return "has more bytes than 64 bits count";
  }
  return {};
}

std::string meta_problem(const TensorMeta& meta) {
  if (find_dtype_name(meta.dtype).empty())
    return fmt::format("has the dtype {}, which graphs do not support", c10::toString(meta.dtype));
  if (meta.requires_grad && !c10::isFloatingType(meta.dtype) && !c10::isComplexType(meta.dtype)) {
    return fmt::format("is {} and requires grad, which only floating and complex values can",
                       dtype_text(static_cast<int64_t>(meta.dtype)));
  }
  return sizes_problem(meta);
}

// Checks that each symbol has the same hint wherever it occurs.
class SymbolHints {
 public:
  std::string add(const SizeExpr& size) {
    if (size.is_static()) return {};
    for (const auto& [symbol, hint] : size.symbols()) {
      const auto [known, is_new] = hints_.emplace(symbol, hint);
      if (!is_new && known->second != hint)
        return fmt::format("symbol {} has the hints {} and {}", symbol, known->second, hint);
    }
    return {};
  }
  std::string add(const Sizes& sizes) {
    for (const auto& size : sizes) {
      if (auto problem = add(size); !problem.empty()) return problem;
    }
    return {};
  }

 private:
  std::map<std::string, int64_t> hints_;
};

std::string problem_text(const Graph& graph, const GraphProblem& problem) {
  if (!problem.node) return fmt::format("graph '{}' {}", graph.name(), problem.what);
  const Node& node = graph.nodes()[*problem.node];
  return fmt::format("node {} ({}) {}\n{}", *problem.node, node.op.name(), problem.what,
                     nodes_around(graph, *problem.node));
}

class Checker {
 public:
  explicit Checker(const Graph& graph) : graph_(graph) {}

  std::optional<GraphProblem> run() {
    for (size_t i = 0; i < graph_.num_values(); ++i) check_value(Value{static_cast<int32_t>(i)});
    for (size_t i = 0; i < graph_.nodes().size() && !problem_; ++i) check_node(i);
    check_slots(graph_.input_slots(), graph_.inputs().size(), "input",
                {SlotKind::kArgument, SlotKind::kFreeVariable, SlotKind::kResidual, SlotKind::kTangent});
    check_slots(graph_.output_slots(), graph_.outputs().size(), "output",
                {SlotKind::kOutput, SlotKind::kMutated, SlotKind::kResidual, SlotKind::kGradient});
    for (size_t i = 0; i < graph_.outputs().size(); ++i) {
      if (!is_value_or_none(graph_.outputs()[i]))
        report({}, fmt::format("output {} is %{}, which is not a value of the graph", i, graph_.outputs()[i].id));
    }
    return std::move(problem_);
  }

 private:
  void report(std::optional<size_t> node, std::string what) {
    if (!problem_) problem_ = GraphProblem{node, std::move(what)};
  }

  bool is_value_or_none(Value value) const {
    return value.id >= -1 && value.id < static_cast<int64_t>(graph_.num_values());
  }

  void check_value(Value value) {
    const ValueInfo& info = graph_.info(value);
    const auto node = info.kind == ValueInfo::Kind::kNode ? std::optional<size_t>(info.node) : std::nullopt;
    auto problem = meta_problem(info.meta);
    if (problem.empty()) problem = hints_.add(info.meta.sizes);
    if (problem.empty()) problem = hints_.add(info.meta.strides);
    if (!problem.empty()) report(node, fmt::format("%{} {}", value.id, problem));
  }

  void check_node(size_t index) {
    const Node& node = graph_.nodes()[index];
    if (node.operands.size() != node.op.schema().arguments().size()) {
      report(index, fmt::format("has {} operands, but its schema {} takes {}", node.operands.size(),
                                c10::str(node.op.schema()), node.op.schema().arguments().size()));
      return;
    }
    for (size_t i = 0; i < node.operands.size(); ++i) check_operand(index, i);
    check_returns(index);
    check_subgraphs(index);
    if (!is_value_or_none(node.provenance.grad_of))
      report(index,
             fmt::format("is the gradient of %{}, which is not a value of the graph", node.provenance.grad_of.id));
    check_marks(index);
  }

  void check_marks(size_t index) {
    const Provenance& from = graph_.nodes()[index].provenance;
    const size_t depth = region_depth(from.region);
    if (depth > RegionMarks::kMaxDepth)
      report(index, fmt::format("is in region '{}', {} deep, expected at most {}", from.region.str(), depth,
                                RegionMarks::kMaxDepth));
    if (from.marks.depth() > depth)
      report(index, fmt::format("has the marks '{}', which are more than the regions on the path '{}'",
                                from.marks.str(from.marks.depth()), from.region.str()));
  }

  void check_operand(size_t index, size_t i) {
    const Node& node = graph_.nodes()[index];
    const Operand& operand = node.operands[i];
    const auto name = fmt::format("{} '{}'", i, node.op.schema().arguments()[i].name());
    const auto check_use = [&](Value value) {
      if (value && !is_made_before(value, index))
        report(index, fmt::format("operand {} is %{}, which is not made before it", name, value.id));
      if (value.id < -1) report(index, fmt::format("operand {} is %{}, which is not a value", name, value.id));
    };
    if (const auto* value = std::get_if<Value>(&operand)) check_use(*value);
    if (const auto* list = std::get_if<ValueList>(&operand)) {
      for (const Value value : *list) check_use(value);
    }
    auto problem = operand_problem(operand, operand_type(node.op, i));
    if (const auto* size = std::get_if<SizeExpr>(&operand); size && problem.empty()) problem = hints_.add(*size);
    if (const auto* sizes = std::get_if<Sizes>(&operand); sizes && problem.empty()) problem = hints_.add(*sizes);
    if (const auto* number = std::get_if<SizeNumber>(&operand); number && problem.empty()) {
      problem = hints_.add(Sizes{number->top, number->bottom});
    }
    if (!problem.empty()) report(index, fmt::format("operand {}: {}", name, problem));
  }

  bool is_made_before(Value value, size_t index) const {
    if (!is_value_or_none(value)) return false;
    const ValueInfo& info = graph_.info(value);
    return info.kind != ValueInfo::Kind::kNode || info.node < static_cast<int64_t>(index);
  }

  void check_returns(size_t index) {
    const Node& node = graph_.nodes()[index];
    int64_t count = 0;
    for (const int32_t returned : node.returns) {
      if (returned < -2) report(index, fmt::format("has the return count {}, expected -2 or more", returned));
      count += returned == -1 ? 1 : std::max(returned, 0);
    }
    if (count != static_cast<int64_t>(node.outputs.size())) {
      report(index, fmt::format("has {} outputs, but its returns announce {}", node.outputs.size(), count));
    }
    if (!node.op.is_hop()) check_returns_against_schema(index);
  }

  void check_returns_against_schema(size_t index) {
    const Node& node = graph_.nodes()[index];
    const auto& returns = node.op.schema().returns();
    if (node.returns.size() != returns.size()) {
      report(index, fmt::format("has {} returns, but its schema {} announces {}", node.returns.size(),
                                c10::str(node.op.schema()), returns.size()));
      return;
    }
    for (size_t i = 0; i < returns.size(); ++i) {
      const auto kind = operand_type(returns[i]).kind;
      const int32_t got = node.returns[i];
      const bool fit = kind == OperandKind::kTensor ? got == -1 : kind == OperandKind::kTensors ? got >= 0 : got == -2;
      if (!fit)
        report(index, fmt::format("return {} is {} by the schema {}, which does not match the return count {}", i,
                                  describe({kind, false}), c10::str(node.op.schema()), got));
    }
  }

  void check_subgraphs(size_t index) {
    const Node& node = graph_.nodes()[index];
    const auto wanted = node.op.is_hop() ? node.op.hop().bodies() : std::vector<std::string>();
    if (node.subgraphs.size() != wanted.size()) {
      report(index, fmt::format("has {} subgraphs, expected {} ({})", node.subgraphs.size(), wanted.size(),
                                wanted.empty() ? "none" : fmt::format("{}", fmt::join(wanted, ", "))));
    }
    for (size_t i = 0; i < node.subgraphs.size(); ++i) {
      if (node.subgraphs[i] == nullptr) {
        report(index, fmt::format("subgraph {} is missing", i));
      } else if (const auto inner = find_problem(*node.subgraphs[i])) {
        report(index, fmt::format("in its subgraph {}: {}", i, problem_text(*node.subgraphs[i], *inner)));
      }
    }
  }

  void check_slots(const std::vector<Slot>& slots, size_t count, std::string_view side,
                   std::initializer_list<SlotKind> allowed) {
    if (slots.size() != count) report({}, fmt::format("has {} {}s and {} slots for them", count, side, slots.size()));
    for (size_t i = 0; i < slots.size(); ++i) {
      const bool fit = std::find(allowed.begin(), allowed.end(), slots[i].kind) != allowed.end();
      if (!fit)
        report({}, fmt::format("{} {} '{}' has the slot kind '{}', which does not exist for an {}", side, i,
                               slots[i].path, slot_kind_name(slots[i].kind), side));
    }
  }

  const Graph& graph_;
  SymbolHints hints_;
  std::optional<GraphProblem> problem_;
};

}  // namespace

std::optional<GraphProblem> detail::find_problem(const Graph& graph) { return Checker(graph).run(); }

void verify(const Graph& graph) {
  const auto problem = find_problem(graph);
  DIPTYCH_ASSERT(!problem, "[verify] {}", problem_text(graph, *problem));
}

}  // namespace diptych
