// Where elements stand: the indices and coordinates that gathers and scatters are written with.
#pragma once
#include <algorithm>

#include "diptych/xla/hlo/lowering.h"

namespace diptych::detail {

/// Elements of a contiguous tensor by stride, in elements.
struct StridedElements {
  std::vector<int64_t> sizes, strides;
  int64_t offset = 0;
};

std::vector<int64_t> contiguous_strides_of(const std::vector<int64_t>& sizes);
int64_t elements_of(const std::vector<int64_t>& sizes);

/// A tensor without dimensions as one of a single element.
Hlo at_least_1d(HloWriter& writer, const Hlo& x);
/// Indices in which a negative one counts from the end of a dimension of `size`.
Hlo wrap_indices(HloWriter& writer, const Hlo& index, int64_t size);
/// For every element of `index`, its coordinates with `index` itself in place of coordinate `dim`, in a new last
/// dimension. Requires: at least one dimension.
Hlo coordinates_along(HloWriter& writer, const Hlo& index, int64_t dim);

/// The row, and the column, of every element of matrices of these sizes.
Hlo matrix_rows(HloWriter& writer, const std::vector<int64_t>& sizes);
Hlo matrix_columns(HloWriter& writer, const std::vector<int64_t>& sizes);
/// Ones on the diagonal, and zeros.
Hlo identity_matrix(HloWriter& writer, at::ScalarType dtype, const std::vector<int64_t>& sizes);

/// How many elements up to each are set, itself included. Requires: flags of one dimension.
Hlo running_count(HloWriter& writer, const Hlo& flags);

/// Reads and writes the elements of a view of `x`, which is taken as contiguous; `operation` is that of a scatter.
Hlo read_strided(HloWriter& writer, const Hlo& x, const StridedElements& view);
Hlo write_strided(HloWriter& writer, std::string_view operation, const Hlo& x, const StridedElements& view,
                  const Hlo& updates);

/// How x[indices] is read or written, where some dimensions have an index tensor each and the others are whole.
struct AdvancedIndex {
  Hlo coordinates;                     ///< of the indexed dimensions, in order; a last dimension holds them
  std::vector<int64_t> operand_order;  ///< the transposition of x that puts the indexed dimensions first
  std::vector<int64_t> result_order;   ///< the transposition of rows that were read to the result
};
/// `indices` holds an empty Hlo for a dimension that is whole. Negative indices are wrapped.
AdvancedIndex advanced_index(HloWriter& writer, const Hlo& x, const std::vector<Hlo>& indices);
/// The transposition that undoes `order`.
std::vector<int64_t> inverse_order(const std::vector<int64_t>& order);

/// The metadata of a tensor operand; null for a number.
const TensorMeta* operand_meta(const Lowering& node, size_t index);
/// Whether a tensor operand has the dtype of the result, so that copying it converts nothing.
template <size_t kOperand>
bool has_dtype_of_result(const Lowering& node) {
  const TensorMeta* const meta = operand_meta(node, kOperand);
  return meta != nullptr && meta->dtype == node.dtype();
}

/// Whether operand `kOperand` lists tensors of integers: masks have sizes that depend on values.
template <size_t kOperand>
bool has_integer_indices(const Lowering& node) {
  const auto* list = std::get_if<ValueList>(&node.node().operands[kOperand]);
  return list != nullptr &&
         std::any_of(list->begin(), list->end(), [](Value index) { return static_cast<bool>(index); }) &&
         std::all_of(list->begin(), list->end(), [&](Value index) {
           return !index || node.graph().meta(index).dtype == at::kLong || node.graph().meta(index).dtype == at::kInt;
         });
}

}  // namespace diptych::detail
