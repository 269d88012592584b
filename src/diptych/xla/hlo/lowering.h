// From one node of a graph to operations of StableHLO: what a lowering rule sees, and the table of rules.
#pragma once
#include <optional>
#include <string_view>
#include <vector>

#include "diptych/graph/graph.h"
#include "diptych/xla/hlo/hlo_writer.h"

namespace diptych::detail {

/// One node while it is lowered. Operands are named by their position in the operator's schema.
/// Requires: a node without dynamic sizes.
class Lowering {
 public:
  /// `values` holds the HLO of each value of the graph, by number.
  Lowering(HloWriter& writer, const Graph& graph, const Node& node, const std::vector<Hlo>& values)
      : writer_(writer), graph_(graph), node_(node), values_(values) {}

  HloWriter& writer() const { return writer_; }
  const Graph& graph() const { return graph_; }
  const Node& node() const { return node_; }

  /// The metadata of output `index`, whose sizes and dtype the rule's result must have.
  const TensorMeta& result(size_t index = 0) const { return graph_.meta(node_.outputs[index]); }
  at::ScalarType dtype(size_t index = 0) const { return result(index).dtype; }
  std::vector<int64_t> sizes(size_t index = 0) const { return result(index).size_hints(); }
  /// Whether output `index` is a tensor that the node defines.
  bool has_result(size_t index) const { return index < node_.outputs.size() && node_.outputs[index]; }

  const Hlo& value(Value value) const { return values_[value.id]; }
  /// A tensor operand. A number where a tensor is expected is a constant of no dimension.
  Hlo tensor(size_t index) const;
  bool has_tensor(size_t index) const;
  std::vector<Hlo> tensors(size_t index) const;
  /// A tensor operand, converted to `dtype` and broadcast to the sizes of output 0; also a Scalar operand.
  Hlo spread(size_t index, at::ScalarType dtype) const;
  /// The same without the broadcast.
  Hlo converted(size_t index, at::ScalarType dtype) const { return writer_.convert(tensor(index), dtype); }
  /// The dtype that ATen computes in for these operands (tensors or Scalars): its promotion with numbers and tensors
  /// without dimensions ranked below. Source: ATen's TypeProperties.cpp.
  at::ScalarType common_dtype(const std::vector<size_t>& indices) const;

  /// Constant operands; an absent one (None, or left out) gives `otherwise`.
  bool is_given(size_t index) const;
  int64_t integer(size_t index, int64_t otherwise = 0) const;
  double number(size_t index, double otherwise = 0) const;
  bool flag(size_t index, bool otherwise = false) const;
  at::Scalar scalar(size_t index, const at::Scalar& otherwise = 0) const;
  std::vector<int64_t> integers(size_t index) const;
  std::string text(size_t index, std::string otherwise = "") const;
  /// The constant itself; None for what is not one.
  c10::IValue constant(size_t index) const;

  /// Dimension `dim` of a tensor of `rank` dimensions, counted from 0; a tensor without dimensions has dimension 0.
  static int64_t wrap(int64_t dim, int64_t rank) { return dim < 0 ? dim + std::max<int64_t>(rank, 1) : dim; }
  /// The dtype in which an operator on `dtype` computes: ATen's kernels widen half types.
  static at::ScalarType wide(at::ScalarType dtype) { return at::isReducedFloatingType(dtype) ? at::kFloat : dtype; }
  /// A constant of the sizes of `like`.
  Hlo filled(const at::Scalar& value, const Hlo& like) const { return writer_.constant(value, like.dtype, like.sizes); }
  Hlo scalar_of(const at::Scalar& value, at::ScalarType dtype) const { return writer_.constant(value, dtype); }

 private:
  HloWriter& writer_;
  const Graph& graph_;
  const Node& node_;
  const std::vector<Hlo>& values_;
};

/// The dtype of a tensor operand, without its value.
inline at::ScalarType operand_dtype(const Lowering& node, size_t index) {
  return node.graph().meta(std::get<Value>(node.node().operands[index])).dtype;
}

/// Lowers a node: returns one HLO per output, in order; an output that is undefined may be empty.
using LoweringRule = std::vector<Hlo> (*)(const Lowering& node);

/// A row of a table of lowerings.
struct LoweringRow {
  std::string_view op;  ///< "aten.add.Tensor"
  LoweringRule lower;
  /// Returns whether the rule covers this node, by its operands and types alone; null if it covers all.
  bool (*covers)(const Lowering& node) = nullptr;
};

/// Returns the row for a node that a rule covers; null if there is none. Dtypes that StableHLO does not have, devices
/// other than the CPU and dynamic sizes are not looked at.
const LoweringRow* find_lowering(const Graph& graph, const Node& node);

/// Every row of every table.
std::vector<const LoweringRow*> all_lowerings();

/// The tables, one per family of operators.
std::span<const LoweringRow> pointwise_lowerings();
std::span<const LoweringRow> shape_lowerings();
std::span<const LoweringRow> reduction_lowerings();
std::span<const LoweringRow> product_lowerings();
std::span<const LoweringRow> indexing_lowerings();
std::span<const LoweringRow> hop_lowerings();
std::span<const LoweringRow> segment_lowerings();
std::span<const LoweringRow> while_gradient_lowerings();
std::span<const LoweringRow> creation_lowerings();
std::span<const LoweringRow> rearranging_lowerings();
std::span<const LoweringRow> padding_lowerings();
std::span<const LoweringRow> strided_lowerings();
std::span<const LoweringRow> scatter_lowerings();
std::span<const LoweringRow> writing_lowerings();
std::span<const LoweringRow> convolution_lowerings();
std::span<const LoweringRow> average_pooling_lowerings();
std::span<const LoweringRow> maximum_pooling_lowerings();
std::span<const LoweringRow> upsampling_lowerings();
std::span<const LoweringRow> interpolation_lowerings();
std::span<const LoweringRow> grid_sampling_lowerings();
std::span<const LoweringRow> attention_lowerings();
std::span<const LoweringRow> batch_normalization_lowerings();
std::span<const LoweringRow> scan_lowerings();
std::span<const LoweringRow> order_lowerings();
std::span<const LoweringRow> sorting_lowerings();
std::span<const LoweringRow> norm_lowerings();
std::span<const LoweringRow> distance_lowerings();
std::span<const LoweringRow> embedding_bag_lowerings();
std::span<const LoweringRow> loss_lowerings();
std::span<const LoweringRow> margin_loss_lowerings();
std::span<const LoweringRow> pointwise_math_lowerings();
std::span<const LoweringRow> pointwise_division_lowerings();
std::span<const LoweringRow> pointwise_activation_lowerings();
std::span<const LoweringRow> pointwise_parts_lowerings();
std::span<const LoweringRow> random_lowerings();
std::span<const LoweringRow> linear_algebra_lowerings();
std::span<const LoweringRow> lu_lowerings();
std::span<const LoweringRow> reflector_lowerings();
std::span<const LoweringRow> fourier_lowerings();
std::span<const LoweringRow> special_function_lowerings();
std::span<const LoweringRow> bessel_function_lowerings();
std::span<const LoweringRow> orthogonal_polynomial_lowerings();
std::span<const LoweringRow> pointwise_bits_lowerings();

/// Lowers a node by its row, and notes its results in `values`, which holds the HLO of each value of the graph.
/// Errors: InternalError if a result has another type than the graph says.
void lower_node(HloWriter& writer, const Graph& graph, const Node& node, std::vector<Hlo>& values);

}  // namespace diptych::detail
