#include "diptych/xla/hlo/lowering.h"

#include <c10/core/ScalarTypeToTypeMeta.h>

#include <algorithm>
#include <unordered_map>

#include "diptych/base/check.h"
#include "diptych/graph/argument_values.h"
#include "diptych/graph/print.h"

namespace diptych::detail {
namespace {

constexpr std::span<const LoweringRow> (*kTables[])() = {
    pointwise_lowerings,
    shape_lowerings,
    reduction_lowerings,
    product_lowerings,
    indexing_lowerings,
    hop_lowerings,
    segment_lowerings,
    while_gradient_lowerings,
    creation_lowerings,
    rearranging_lowerings,
    padding_lowerings,
    strided_lowerings,
    scatter_lowerings,
    writing_lowerings,
    convolution_lowerings,
    average_pooling_lowerings,
    maximum_pooling_lowerings,
    upsampling_lowerings,
    interpolation_lowerings,
    grid_sampling_lowerings,
    attention_lowerings,
    batch_normalization_lowerings,
    scan_lowerings,
    order_lowerings,
    sorting_lowerings,
    norm_lowerings,
    distance_lowerings,
    embedding_bag_lowerings,
    loss_lowerings,
    margin_loss_lowerings,
    pointwise_math_lowerings,
    pointwise_division_lowerings,
    pointwise_activation_lowerings,
    pointwise_parts_lowerings,
    random_lowerings,
    linear_algebra_lowerings,
    lu_lowerings,
    reflector_lowerings,
    fourier_lowerings,
    special_function_lowerings,
    bessel_function_lowerings,
    orthogonal_polynomial_lowerings,
    pointwise_bits_lowerings,
};

const std::unordered_map<std::string_view, const LoweringRow*>& rows_by_op() {
  static const auto& rows = *new auto([] {
    std::unordered_map<std::string_view, const LoweringRow*> found;
    for (const auto table : kTables) {
      for (const LoweringRow& row : table()) {
        DIPTYCH_ASSERT(found.emplace(row.op, &row).second, "operator {} has two lowerings", row.op);
      }
    }
    return found;
  }());
  return rows;
}

// Of two dtypes of different rank in ATen's promotion, the lower one counts only where its kind is higher.
at::ScalarType combine(at::ScalarType higher, at::ScalarType lower) {
  if (higher == at::ScalarType::Undefined) return lower;
  if (lower == at::ScalarType::Undefined || at::isComplexType(higher)) return higher;
  if (at::isFloatingType(higher)) return at::isComplexType(lower) ? at::toComplexType(higher) : higher;
  if (higher == at::kBool || at::isFloatingType(lower) || at::isComplexType(lower))
    return c10::promoteTypes(higher, lower);
  return higher;
}

at::ScalarType promote(at::ScalarType a, at::ScalarType b) {
  if (a == at::ScalarType::Undefined) return b;
  return b == at::ScalarType::Undefined ? a : c10::promoteTypes(a, b);
}

at::ScalarType default_dtype_of(const at::Scalar& number) {
  if (number.isComplex()) return at::toComplexType(at::get_default_dtype_as_scalartype());
  return number.isFloatingPoint() ? at::get_default_dtype_as_scalartype() : number.type();
}

}  // namespace

Hlo Lowering::tensor(size_t index) const {
  const Operand& operand = node_.operands[index];
  if (const auto* value = std::get_if<Value>(&operand)) return values_[value->id];
  if (const auto* wrapped = std::get_if<WrappedNumber>(&operand))
    return writer_.constant(wrapped->number, wrapped->dtype);
  const at::Scalar number = scalar(index);
  return writer_.constant(number, default_dtype_of(number));
}

bool Lowering::has_tensor(size_t index) const {
  if (index >= node_.operands.size()) return false;
  const auto* value = std::get_if<Value>(&node_.operands[index]);
  return value != nullptr ? static_cast<bool>(*value) : std::holds_alternative<WrappedNumber>(node_.operands[index]);
}

std::vector<Hlo> Lowering::tensors(size_t index) const {
  std::vector<Hlo> list;
  for (const Value value : std::get<ValueList>(node_.operands[index]))
    list.push_back(value ? values_[value.id] : Hlo{});
  return list;
}

Hlo Lowering::spread(size_t index, at::ScalarType dtype) const {
  if (const auto* wrapped = std::get_if<WrappedNumber>(&node_.operands[index])) {
    return writer_.constant(wrapped->number, dtype, sizes());
  }
  if (std::holds_alternative<c10::IValue>(node_.operands[index]))
    return writer_.constant(scalar(index), dtype, sizes());
  return writer_.broadcast_to(converted(index, dtype), sizes());
}

at::ScalarType Lowering::common_dtype(const std::vector<size_t>& indices) const {
  auto with_dims = at::ScalarType::Undefined, without_dims = with_dims, numbers = with_dims;
  for (const size_t index : indices) {
    const Operand& operand = node_.operands[index];
    if (const auto* value = std::get_if<Value>(&operand)) {
      const TensorMeta& meta = graph_.meta(*value);
      auto& kind = meta.sizes.empty() ? without_dims : with_dims;
      kind = promote(kind, meta.dtype);
    } else if (const auto* wrapped = std::get_if<WrappedNumber>(&operand)) {
      numbers = promote(numbers, default_dtype_of(wrapped->number));
    } else {
      numbers = promote(numbers, default_dtype_of(scalar(index)));
    }
  }
  return combine(with_dims, combine(without_dims, numbers));
}

c10::IValue Lowering::constant(size_t index) const {
  if (index >= node_.operands.size()) return {};
  const auto* value = std::get_if<c10::IValue>(&node_.operands[index]);
  return value == nullptr ? c10::IValue() : *value;
}

bool Lowering::is_given(size_t index) const { return has_tensor(index) || !constant(index).isNone(); }

int64_t Lowering::integer(size_t index, int64_t otherwise) const {
  const auto value = constant(index);
  return value.isNone() ? otherwise : value.isInt() ? value.toInt() : value.toScalar().to<int64_t>();
}

double Lowering::number(size_t index, double otherwise) const {
  const auto value = constant(index);
  return value.isNone() ? otherwise : value.toScalar().to<double>();
}

bool Lowering::flag(size_t index, bool otherwise) const {
  const auto value = constant(index);
  return value.isNone() ? otherwise : value.toBool();
}

at::Scalar Lowering::scalar(size_t index, const at::Scalar& otherwise) const {
  const auto value = constant(index);
  return value.isNone() ? otherwise : value.toScalar();
}

std::vector<int64_t> Lowering::integers(size_t index) const { return integers_of(constant(index)); }

std::string Lowering::text(size_t index, std::string otherwise) const {
  const auto value = constant(index);
  return value.isNone() ? std::move(otherwise) : value.toStringRef();
}

std::vector<const LoweringRow*> all_lowerings() {
  std::vector<const LoweringRow*> rows;
  for (const auto table : kTables) {
    for (const LoweringRow& row : table()) rows.push_back(&row);
  }
  return rows;
}

const LoweringRow* find_lowering(const Graph& graph, const Node& node) {
  const auto found = rows_by_op().find(node.op.name());
  if (found == rows_by_op().end()) return nullptr;
  const LoweringRow* const row = found->second;
  if (row->covers == nullptr) return row;
  HloWriter unused;
  return row->covers(Lowering(unused, graph, node, {})) ? row : nullptr;
}

namespace {

bool has_only_empty_results(const Graph& graph, const Node& node) {
  return std::all_of(node.outputs.begin(), node.outputs.end(),
                     [&](Value value) { return !value || graph.meta(value).numel() == 0; });
}

// A rule need not think of results without elements, for which many operations of HLO are ill-formed.
std::vector<Hlo> write_empty_results(HloWriter& writer, const Graph& graph, const Node& node) {
  std::vector<Hlo> results;
  for (const Value value : node.outputs) {
    results.push_back(value ? writer.constant(0, graph.meta(value).dtype, graph.meta(value).size_hints()) : Hlo{});
  }
  return results;
}

}  // namespace

void lower_node(HloWriter& writer, const Graph& graph, const Node& node, std::vector<Hlo>& values) {
  const LoweringRow* const row = find_lowering(graph, node);
  DIPTYCH_ASSERT(row != nullptr, "no lowering for {}", node_line(graph, node));
  auto results = has_only_empty_results(graph, node) ? write_empty_results(writer, graph, node)
                                                     : row->lower(Lowering(writer, graph, node, values));
  DIPTYCH_ASSERT(results.size() == node.outputs.size(), "the lowering of {} returned {} results",
                 node_line(graph, node), results.size());
  for (size_t i = 0; i < results.size(); ++i) {
    if (!node.outputs[i]) continue;
    const TensorMeta& meta = graph.meta(node.outputs[i]);
    DIPTYCH_ASSERT(results[i].dtype == meta.dtype && results[i].sizes == meta.size_hints(),
                   "the lowering of {} returned {} as result {}", node_line(graph, node), hlo_type(results[i]), i);
    values[node.outputs[i].id] = std::move(results[i]);
  }
}

}  // namespace diptych::detail
