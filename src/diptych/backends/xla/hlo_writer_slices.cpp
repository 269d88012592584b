// Operations on rows and larger slices by position, and on bits.
#include <fmt/ranges.h>

#include <numeric>

#include "diptych/backends/xla/hlo_writer.h"

namespace diptych::detail {
namespace {

std::string positions_text(int64_t from, int64_t to) {
  std::vector<int64_t> list(std::max<int64_t>(to - from, 0));
  std::iota(list.begin(), list.end(), from);
  return hlo_list(list);
}

std::string positions_without(int64_t rank, int64_t dim) {
  std::vector<int64_t> list;
  for (int64_t i = 0; i < rank; ++i) {
    if (i != dim) list.push_back(i);
  }
  return hlo_list(list);
}

}  // namespace

Hlo HloWriter::gather_slices(const Hlo& x, const Hlo& coordinates) {
  const int64_t depth = coordinates.sizes.back(), batch = coordinates.dim() - 1;
  Hlo result{"", x.dtype, {coordinates.sizes.begin(), coordinates.sizes.end() - 1}};
  result.sizes.insert(result.sizes.end(), x.sizes.begin() + depth, x.sizes.end());
  auto slice = x.sizes;
  std::fill(slice.begin(), slice.begin() + depth, 1);
  const auto attributes = fmt::format(
      "dimension_numbers = #stablehlo.gather<offset_dims = {}, collapsed_slice_dims = {}, start_index_map = {}, "
      "index_vector_dim = {}>, slice_sizes = array<i64: {}>",
      positions_text(batch, result.dim()), positions_text(0, depth), positions_text(0, depth), batch,
      fmt::join(slice, ", "));
  return generic("gather", {x, coordinates}, {result}, attributes)[0];
}

Hlo HloWriter::scatter_slices(std::string_view operation, const Hlo& x, const Hlo& coordinates, const Hlo& updates) {
  const int64_t depth = coordinates.sizes.back(), batch = coordinates.dim() - 1;
  const auto attributes = fmt::format(
      "scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = {}, inserted_window_dims = {}, "
      "scatter_dims_to_operand_dims = {}, index_vector_dim = {}>, indices_are_sorted = false, unique_indices = false",
      positions_text(batch, updates.dim()), positions_text(0, depth), positions_text(0, depth), batch);
  const Hlo scalar{"", x.dtype, {}};
  return generic("scatter", {x, coordinates, updates}, {x}, attributes,
                 {{{scalar, scalar}, combine_with(operation)}})[0];
}

Hlo HloWriter::scatter_along(std::string_view operation, const Hlo& x, int64_t dim, const Hlo& indices,
                             const Hlo& updates) {
  const auto attributes = fmt::format(
      "scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = {}, inserted_window_dims = [{}], "
      "scatter_dims_to_operand_dims = [{}], index_vector_dim = 1>, indices_are_sorted = false, unique_indices = false",
      positions_without(x.dim(), dim), dim, dim);
  const Hlo scalar{"", x.dtype, {}};
  return generic("scatter", {x, indices, updates}, {x}, attributes, {{{scalar, scalar}, combine_with(operation)}})[0];
}

Hlo HloWriter::bitcast(const Hlo& x, at::ScalarType dtype, std::vector<int64_t> sizes) {
  const Hlo result = define(dtype, std::move(sizes));
  statement(result, fmt::format("stablehlo.bitcast_convert {} : ({}) -> {}", x.name, hlo_type(x), hlo_type(result)));
  return result;
}

}  // namespace diptych::detail
