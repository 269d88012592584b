// Random graphs over every ATen operator that a graph can hold, with every kind of operand, for round-trip tests.
#pragma once
#include <torch/types.h>

#include <cmath>
#include <limits>
#include <random>

#include "diptych/graph/graph.h"
#include "diptych/graph/operand.h"

namespace diptych::testing {

using namespace detail;

inline const HopSchema* test_hop(std::string_view name) {
  static const HopSchema scan("scan(Tensor[] init, Tensor like, int length, float scale=0.5, int[] fronts=[])",
                              {"step"});
  static const HopSchema cond("cond(Tensor pred, Tensor[] args, str tag, bool[] flags, float[] rates)",
                              {"true", "false"});
  static const HopSchema attributes("attributes(bool reverse=False, int[] sizes=[1, 2], str[] names, int count=3)", {});
  static const HopSchema nested("nested()", {"body"});
  for (const HopSchema* hop : {&scan, &cond, &attributes, &nested}) {
    if (hop->name() == name) return hop;
  }
  return nullptr;
}

/// Every operator whose arguments and returns a graph can hold.
inline const std::vector<Op>& all_operators() {
  static const auto* operators = [] {
    auto* found = new std::vector<Op>();
    for (const auto& name : c10::Dispatcher::singleton().getAllOpNames()) {
      const auto handle = c10::Dispatcher::singleton().findSchema(name);
      if (!handle || name.name.rfind("aten::", 0) != 0 || handle->schema().is_vararg()) continue;
      bool usable = true;
      for (const auto& argument : handle->schema().arguments()) {
        const auto type = operand_type(argument);
        usable =
            usable && (type.is_optional || (type.kind != OperandKind::kOpaque && type.kind != OperandKind::kGenerator));
      }
      if (usable) found->emplace_back(*handle);
    }
    std::sort(found->begin(), found->end(), [](const Op& a, const Op& b) { return a.name() < b.name(); });
    return found;
  }();
  return *operators;
}

/// Makes graphs that verify; the same seed makes the same graph.
class RandomGraph {
 public:
  explicit RandomGraph(uint64_t seed) : random_(seed) {}

  Graph make(int num_nodes, int depth = 0) {
    Graph graph(pick<std::string>({"forward", "f", "weird name \"x\"", "block.0/attn", ""}));
    const auto num_inputs = below(5);
    for (uint64_t i = 0; i < num_inputs; ++i) add_input(graph);
    for (int i = 0; i < num_nodes; ++i) {
      if (chance(8)) add_input(graph);  // free variables and tangents come in the middle of a trace
      if (chance(8)) graph.add_constant(constant());
      if (depth < 2 && chance(6)) {
        add_hop(graph, depth);
      } else {
        add_node(graph, all_operators()[below(all_operators().size())]);
      }
    }
    if (chance(8)) graph.add_constant(constant());
    add_outputs(graph);
    shuffle_inputs(graph);
    return graph;
  }

  void add_node(Graph& graph, const Op& op) {
    Node node{op, {}, {}, {}, {}, provenance(graph), !chance(4)};
    for (const auto& argument : op.schema().arguments()) node.operands.push_back(operand(graph, argument));
    std::vector<std::optional<TensorMeta>> metas;
    for (const auto& returned : op.schema().returns()) {
      const auto kind = operand_type(returned).kind;
      const int32_t count = kind == OperandKind::kTensor ? -1 : kind == OperandKind::kTensors ? int32_t(below(4)) : -2;
      node.returns.push_back(count);
      for (int32_t i = 0; i < (count == -1 ? 1 : std::max(count, 0)); ++i) {
        metas.push_back(chance(8) ? std::nullopt : std::optional(meta()));
      }
    }
    graph.add_node(std::move(node), std::move(metas));
  }

  uint64_t below(uint64_t bound) { return std::uniform_int_distribution<uint64_t>(0, bound - 1)(random_); }
  bool chance(uint64_t one_in) { return below(one_in) == 0; }

 private:
  template <class T>
  T pick(const std::vector<T>& choices) {
    return choices[below(choices.size())];
  }

  std::string text() {
    return pick<std::string>({"", "x", "params.blocks.3.w", "xs[0]", "a b", "none", "grad", "residual", "a//b",
                              "q\"\\\n\t", "\xff\x01 raw", "größe · µ", "block0/attn", "no_grad", "by", "%7",
                              "\u2028"});
  }

  SizeExpr size() {
    if (!chance(3)) return int64_t(below(6));
    const auto s0 = SizeExpr::symbol("s0", 12), s1 = SizeExpr::symbol("s1", 6), n = SizeExpr::symbol("none", 1);
    return pick<SizeExpr>(
        {s0, s1, s0 * s1, (s0 + 3) * s1, s0.divided_by(2), (s0 * s0 + s1).divided_by(6), n + 1, s1 - 2});
  }

  Sizes sizes(size_t rank) {
    Sizes result;
    for (size_t i = 0; i < rank; ++i) result.push_back(size());
    return result;
  }

  TensorMeta meta() {
    TensorMeta meta;
    meta.dtype =
        pick<at::ScalarType>({at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kLong, at::kInt, at::kBool,
                              at::kByte, at::kComplexFloat, at::kComplexDouble, at::kFloat8_e4m3fn});
    const auto rank = below(5);
    meta.sizes = sizes(rank);
    meta.strides = chance(3) ? sizes(rank) : contiguous_strides(meta.sizes);
    meta.device = pick<c10::Device>({c10::kCPU, c10::kCPU, c10::Device("cuda:0"), c10::Device("cuda"), c10::kMeta});
    meta.requires_grad = (c10::isFloatingType(meta.dtype) || c10::isComplexType(meta.dtype)) && chance(2);
    return meta;
  }

  at::Tensor constant() {
    const auto base = at::arange(24).to(pick<at::ScalarType>({at::kFloat, at::kLong, at::kDouble, at::kComplexFloat}));
    switch (below(5)) {
      case 0:
        return at::arange(24).to(at::kBool);
      case 1:
        return base.view({4, 6}).t();
      case 2:
        return at::arange(1, at::kFloat).expand({3, 1});
      case 3:
        return at::full({}, std::nan(""));
      default:
        return base.slice(0, 0, int64_t(below(24)), 2);
    }
  }

  void add_input(Graph& graph) {
    graph.add_input(meta(), {pick<SlotKind>({SlotKind::kArgument, SlotKind::kArgument, SlotKind::kFreeVariable,
                                             SlotKind::kResidual, SlotKind::kTangent}),
                             text()});
  }

  void shuffle_inputs(Graph& graph) {
    if (!chance(3)) return;
    std::vector<size_t> order(graph.inputs().size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::shuffle(order.begin(), order.end(), random_);
    graph.order_inputs(order);
  }

  Value value(const Graph& graph) {
    return graph.num_values() == 0 || chance(6) ? Value{} : Value{int32_t(below(graph.num_values()))};
  }
  ValueList values(const Graph& graph) {
    ValueList list(below(4));
    for (auto& element : list) element = value(graph);
    return list;
  }

  Provenance provenance(const Graph& graph) {
    Provenance from;
    from.scope = InternedString(text());
    from.origin = InternedString(text());
    from.grad_of = value(graph);
    from.phase = chance(2) ? Phase::kForward : Phase::kBackward;
    from.own_derivative = chance(4);
    if (!chance(2)) return from;
    from.region = InternedString(pick<std::string>({"", "checkpoint.0", "checkpoint.0/checkpoint.12", "a//b \"c\""}));
    from.residual_name = InternedString(pick<std::string>({"", "q", "q,k", "region", "größe"}));
    for (size_t i = 0; i < region_depth(from.region); ++i) from.marks.set(i, static_cast<Rematerialize>(below(3)));
    return from;
  }

  double real() {
    return pick<double>(
        {0.0, -0.0, 1.0, 2.0, 1e-5, -1.5e300, 0.1, 5e-324, 1.0 / 3, INFINITY, -INFINITY, std::nan(""), 1e20});
  }
  int64_t integer() { return pick<int64_t>({0, 1, -1, 2, 7, INT64_MAX, INT64_MIN, 1 << 20}); }
  at::Scalar number() {
    switch (below(5)) {
      case 0:
        return integer();
      case 1:
        return chance(2);
      case 2:
        return c10::complex<double>(real(), real());
      case 3:
        return uint64_t(INT64_MAX) + 1 + below(5);
      default:
        return real();
    }
  }

  Operand operand(const Graph& graph, const c10::Argument& argument) {
    const auto type = operand_type(argument);
    if (chance(3)) {
      if (auto value = default_operand(argument)) return *value;
    }
    if (type.is_optional && chance(3)) return c10::IValue();
    return operand_of(graph, type.kind);
  }

  template <class T, class Make>
  c10::IValue list(Make&& make) {
    c10::List<T> result;
    for (uint64_t i = below(4); i > 0; --i) result.push_back(make());
    return result;
  }

  Operand operand_of(const Graph& graph, OperandKind kind) {
    switch (kind) {
      case OperandKind::kTensor:
        if (!chance(5)) return value(graph);
        return WrappedNumber{number(), pick<at::ScalarType>({at::kDouble, at::kLong, at::kFloat, at::kBool})};
      case OperandKind::kTensors:
        return values(graph);
      case OperandKind::kInt:
        return chance(3) ? Operand(size()) : Operand(c10::IValue(integer()));
      case OperandKind::kInts:
        return chance(3) ? Operand(sizes(below(4))) : Operand(list<int64_t>([&] { return integer(); }));
      case OperandKind::kFloat:
        return c10::IValue(real());
      case OperandKind::kFloats:
        return list<double>([&] { return real(); });
      case OperandKind::kBool:
        return c10::IValue(chance(2));
      case OperandKind::kBools:
        return list<bool>([&] { return chance(2); });
      case OperandKind::kNumber:
        return chance(5) ? Operand(size()) : Operand(c10::IValue(number()));
      case OperandKind::kNumbers:
        return list<at::Scalar>([&] { return number(); });
      case OperandKind::kString:
        return c10::IValue(text());
      case OperandKind::kStrings:
        return list<std::string>([&] { return text(); });
      case OperandKind::kDtype:
        return c10::IValue(int64_t(below(int64_t(at::ScalarType::NumOptions))));
      case OperandKind::kLayout:
        return c10::IValue(int64_t(below(10)));
      case OperandKind::kMemoryFormat:
        return c10::IValue(int64_t(below(6)));
      case OperandKind::kDevice:
        return c10::IValue(pick<c10::Device>({c10::kCPU, c10::Device("cuda:1"), c10::kMeta}));
      default:
        return c10::IValue();
    }
  }

  void add_hop(Graph& graph, int depth) {
    const HopSchema* hop = test_hop(pick<std::string>({"scan", "cond", "attributes", "nested"}));
    Node node{Op(hop), {}, {}, {}, {}, provenance(graph), true};
    for (const auto& argument : hop->schema().arguments()) node.operands.push_back(operand(graph, argument));
    for (size_t i = 0; i < hop->bodies().size(); ++i)
      node.subgraphs.push_back(std::make_shared<const Graph>(make(int(below(4)), depth + 1)));
    std::vector<std::optional<TensorMeta>> metas;
    for (uint64_t i = below(4); i > 0; --i) metas.push_back(chance(8) ? std::nullopt : std::optional(meta()));
    node.returns.assign(metas.size(), -1);
    graph.add_node(std::move(node), std::move(metas));
  }

  void add_outputs(Graph& graph) {
    std::vector<Value> outputs;
    std::vector<Slot> slots;
    for (uint64_t i = below(5); i > 0; --i) {
      outputs.push_back(value(graph));
      slots.push_back(
          {pick<SlotKind>({SlotKind::kOutput, SlotKind::kMutated, SlotKind::kResidual, SlotKind::kGradient}), text()});
    }
    graph.set_outputs(std::move(outputs), std::move(slots));
  }

  std::mt19937_64 random_;
};

}  // namespace diptych::testing
