// The operands of one node, as the rules of the table of rows read them.
#pragma once
#include <string>
#include <vector>

#include "diptych/graph/graph.h"

namespace diptych::detail {

/// A node with its graph. Operands are named by their position in the operator's schema.
/// Sizes may be dynamic; those among the operands are not read here, see KernelRow::sizes.
class NodeArguments {
 public:
  NodeArguments(const Graph& graph, const Node& node) : graph_(graph), node_(node) {}

  const Graph& graph() const { return graph_; }
  const Node& node() const { return node_; }

  bool has_result(size_t index) const { return index < node_.outputs.size() && node_.outputs[index]; }
  const TensorMeta& result(size_t index = 0) const { return graph_.meta(node_.outputs[index]); }
  at::ScalarType dtype(size_t index = 0) const { return result(index).dtype; }
  const Sizes& sizes(size_t index = 0) const { return result(index).sizes; }

  /// Whether an operand is a tensor of the graph, which numbers are not.
  bool has_value(size_t index) const;
  /// A tensor operand. Requires: has_value().
  Value value(size_t index) const { return std::get<Value>(node_.operands[index]); }
  const TensorMeta& meta(size_t index) const { return graph_.meta(value(index)); }
  /// Of a tensor, its dtype; of a number, the one that stands for its kind.
  at::ScalarType operand_dtype(size_t index) const;
  /// The dtype to which ATen promotes these operands: numbers and tensors without dims count only by their kind.
  at::ScalarType common_dtype(std::initializer_list<size_t> indices) const;

  /// Whether an operand, a result or a number among the operands is complex.
  bool has_complex() const;
  /// Whether no operand is a number that follows from dynamic sizes, but for those at the positions of `sizes` (one bit
  /// each).
  bool has_plain_constants(uint32_t sizes) const;
  /// Whether the first result's dtype holds each Scalar among the operands. ATen refuses some numbers that it doesn't
  /// hold (a fill with 300 of int8) and wraps others, by the value alone, which only running the operator tells.
  bool holds_numbers() const;
  /// Whether an operand is a number that the graph knows: a Scalar, or a tensor made of a number.
  bool is_number(size_t index) const;
  /// Constant operands; an absent one (None, or left out) gives `otherwise`.
  bool is_given(size_t index) const;
  at::Scalar scalar(size_t index, const at::Scalar& otherwise = 0) const;
  double number(size_t index, double otherwise = 0) const;
  int64_t integer(size_t index, int64_t otherwise = 0) const;
  bool flag(size_t index, bool otherwise = false) const;
  std::vector<int64_t> integers(size_t index) const;
  std::string text(size_t index, std::string otherwise = "") const;

  /// A dim of a tensor of `rank` dims, counted from 0; a tensor without dims has dim 0.
  static int64_t wrap(int64_t dim, int64_t rank) { return dim < 0 ? dim + std::max<int64_t>(rank, 1) : dim; }

 private:
  c10::IValue constant(size_t index) const;

  const Graph& graph_;
  const Node& node_;
};

}  // namespace diptych::detail
