// Tensors made of nothing, or of an operand's sizes.
#include "diptych/native/lower/row_shapes.h"

namespace diptych::detail {
namespace {

// The number is converted to the result's dtype before it is spread.
template <size_t kNumber>
Terms full(NodeLowering& node) {
  return {node.operand(kNumber)};
}
template <int kNumber>
Terms filled_with(NodeLowering& node) {
  return {node.constant(kNumber, node.dtype())};
}
template <size_t kNumber>
bool has_number(const NodeArguments& node) {
  return node.is_number(kNumber);
}

// start + step * position, in the widest dtype of the result's kind.
Terms range(const NodeLowering& node, const at::Scalar& start, const at::Scalar& step) {
  const Term position = node.position(0).to(widest_dtype(node.dtype()));
  return {position * position.like(step) + position.like(start)};
}
Terms range_to(NodeLowering& node) { return range(node, 0, 1); }
Terms range_from(NodeLowering& node) { return range(node, node.scalar(0), 1); }
Terms range_by_step(NodeLowering& node) { return range(node, node.scalar(0), node.scalar(2)); }
// Integers that are made of fractions are rounded in a way of their own.
bool is_plain_range(const NodeArguments& node) {
  if (at::isFloatingType(node.dtype())) return true;
  for (size_t i = 0; i < 3; ++i) {
    if (node.is_number(i) && !node.scalar(i).isIntegral(false)) return false;
  }
  return has_integer_result(node);
}

// Counted from the nearer end, as ATen does.
Terms even_steps(NodeLowering& node) {
  const int64_t count = node.integer(2), middle = count / 2;
  const Term start = node.constant(node.scalar(0), node.dtype()), end = node.constant(node.scalar(1), node.dtype());
  if (count == 1) return {start};
  const Term step = (end - start) / static_cast<double>(count - 1), position = node.position(0);
  const Term forward = position.to(node.dtype()), back = (position.like(count - 1) - position).to(node.dtype());
  return {(position < position.like(middle)).choose(start + step * forward, end - step * back)};
}
bool has_plain_steps(const NodeArguments& node) { return has_dtype(kFloats, node.dtype()); }

Terms identity_matrix(NodeLowering& node) { return {node.position(0).equals(node.position(1)).to(node.dtype())}; }

// What is kept lies so far from the diagonal at most: the element's column less its row.
template <const char* kOp>
Terms triangle(NodeLowering& node) {
  const size_t rank = node.sizes().size();
  const Term x = node.operand(0), column = node.position(rank - 1), row = node.position(rank - 2);
  return {(column - row).apply(kOp, column.like(node.integer(1))).choose(x, 0.0)};
}

constexpr char kAtMost[] = "le", kAtLeast[] = "ge";

constexpr KernelRow kCreationRows[] = {
    also_complex({"aten.full", place_created, full<1>, has_number<1>, 1U << 0U}),
    also_complex({"aten.full_like", place_created, full<1>, has_number<1>}),
    also_complex({"aten.new_full", place_created, full<2>, has_number<2>, 1U << 1U}),
    also_complex({"aten.scalar_tensor", place_created, full<0>, has_number<0>}),
    also_complex({"aten.zeros", place_created, filled_with<0>, nullptr, 1U << 0U}),
    also_complex({"aten.zeros_like", place_created, filled_with<0>}),
    also_complex({"aten.new_zeros", place_created, filled_with<0>, nullptr, 1U << 1U}),
    also_complex({"aten.zero", place_created, filled_with<0>}),
    also_complex({"aten.ones", place_created, filled_with<1>, nullptr, 1U << 0U}),
    also_complex({"aten.ones_like", place_created, filled_with<1>}),
    also_complex({"aten.new_ones", place_created, filled_with<1>, nullptr, 1U << 1U}),
    {"aten.arange", place_created, range_to, is_plain_range, 1U << 0U},
    {"aten.arange.start", place_created, range_from, is_plain_range, 1U << 1U},
    {"aten.arange.start_step", place_created, range_by_step, is_plain_range},
    {"aten.linspace", place_created, even_steps, has_plain_steps},
    also_complex({"aten.eye", place_created, identity_matrix}),
    also_complex({"aten.eye.m", place_created, identity_matrix}),
    also_complex({"aten.tril", place_pointwise, triangle<kAtMost>}),
    also_complex({"aten.triu", place_pointwise, triangle<kAtLeast>}),
};

}  // namespace

std::span<const KernelRow> creation_rows() { return kCreationRows; }

}  // namespace diptych::detail
