// Operations on parts of tensors: ranges, and rows and larger slices by position.
#include <fmt/ranges.h>

#include <algorithm>

#include "diptych/xla/hlo/hlo_text.h"
#include "diptych/xla/hlo/hlo_writer.h"

namespace diptych::detail {
Hlo HloWriter::slice(const Hlo& x, at::IntArrayRef begin, at::IntArrayRef end, at::IntArrayRef step) {
  std::vector<int64_t> sizes;
  std::vector<std::string> ranges;
  for (size_t i = 0; i < x.sizes.size(); ++i) {
    sizes.push_back(end[i] <= begin[i] ? 0 : (end[i] - begin[i] + step[i] - 1) / step[i]);
    ranges.push_back(fmt::format("{}:{}:{}", begin[i], std::max(begin[i], end[i]), step[i]));
  }
  if (sizes == x.sizes) return x;
  const Hlo result = define(x.dtype, std::move(sizes));
  statement(result, fmt::format("stablehlo.slice {} [{}] : ({}) -> {}", x.name, fmt::join(ranges, ", "), hlo_type(x),
                                hlo_type(result)));
  return result;
}

Hlo HloWriter::slice_along(const Hlo& x, int64_t dim, int64_t begin, int64_t end, int64_t step) {
  std::vector<int64_t> low(x.sizes.size(), 0), steps(x.sizes.size(), 1);
  auto high = x.sizes;
  low[dim] = begin, high[dim] = end, steps[dim] = step;
  return slice(x, low, high, steps);
}

Hlo HloWriter::dynamic_slice(const Hlo& x, const std::vector<Hlo>& starts, at::IntArrayRef sizes) {
  const Hlo result = define(x.dtype, sizes.vec());
  const std::string comma = starts.empty() ? "" : ", ";
  statement(result,
            fmt::format("stablehlo.dynamic_slice {}{}{}, sizes = {} : ({}{}{}) -> {}", x.name, comma, hlo_names(starts),
                        hlo_list(sizes), hlo_type(x), comma, hlo_types(starts), hlo_type(result)));
  return result;
}

Hlo HloWriter::dynamic_update_slice(const Hlo& x, const Hlo& update, const std::vector<Hlo>& starts) {
  const Hlo result = define(x.dtype, x.sizes);
  const std::string comma = starts.empty() ? "" : ", ";
  statement(result,
            fmt::format("stablehlo.dynamic_update_slice {}, {}{}{} : ({}, {}{}{}) -> {}", x.name, update.name, comma,
                        hlo_names(starts), hlo_type(x), hlo_type(update), comma, hlo_types(starts), hlo_type(result)));
  return result;
}

// No element can be read from an empty dimension, as in the body of a loop over nothing; HLO has no such operation.
Hlo HloWriter::nothing_to_read(const Hlo& result) { return constant(0, result.dtype, result.sizes); }

Hlo HloWriter::take(const Hlo& x, const Hlo& indices, int64_t dim) {
  Hlo result{"", x.dtype, {x.sizes.begin(), x.sizes.begin() + dim}};
  result.sizes.insert(result.sizes.end(), indices.sizes.begin(), indices.sizes.end());
  result.sizes.insert(result.sizes.end(), x.sizes.begin() + dim + 1, x.sizes.end());
  if (x.sizes[dim] == 0) return nothing_to_read(result);
  if (result.sizes.empty()) return reshape(take(x, reshape(indices, {1}), dim), {});  // see gather_slices()
  auto offsets = counted(0, dim), after = counted(dim + indices.dim(), result.dim());
  offsets.insert(offsets.end(), after.begin(), after.end());
  auto slice = x.sizes;
  slice[dim] = 1;
  const auto attributes = fmt::format(
      "dimension_numbers = #stablehlo.gather<offset_dims = {}, collapsed_slice_dims = [{}], start_index_map = [{}], "
      "index_vector_dim = {}>, slice_sizes = {}",
      hlo_list(offsets), dim, dim, indices.dim(), hlo_array(slice));
  return generic("gather", {x, indices}, {result}, attributes)[0];
}

// One element is read, and written, as a vector of one: the compiler makes a transpose of a gather, and of a scatter,
// which it can't compile where there is no dimension.
Hlo HloWriter::gather_slices(const Hlo& x, const Hlo& coordinates) {
  const int64_t depth = coordinates.sizes.back(), batch = coordinates.dim() - 1;
  Hlo result{"", x.dtype, {coordinates.sizes.begin(), coordinates.sizes.end() - 1}};
  result.sizes.insert(result.sizes.end(), x.sizes.begin() + depth, x.sizes.end());
  if (std::count(x.sizes.begin(), x.sizes.begin() + depth, 0) != 0) return nothing_to_read(result);
  if (result.sizes.empty()) return reshape(gather_slices(x, reshape(coordinates, {1, depth})), {});
  auto slice = x.sizes;
  std::fill(slice.begin(), slice.begin() + depth, 1);
  const auto attributes = fmt::format(
      "dimension_numbers = #stablehlo.gather<offset_dims = {}, collapsed_slice_dims = {}, start_index_map = {}, "
      "index_vector_dim = {}>, slice_sizes = array<i64: {}>",
      hlo_list(counted(batch, result.dim())), hlo_list(counted(0, depth)), hlo_list(counted(0, depth)), batch,
      fmt::join(slice, ", "));
  return generic("gather", {x, coordinates}, {result}, attributes)[0];
}

Hlo HloWriter::scatter_slices(std::string_view operation, const Hlo& x, const Hlo& coordinates, const Hlo& updates) {
  const int64_t depth = coordinates.sizes.back(), batch = coordinates.dim() - 1;
  if (updates.sizes.empty())
    return scatter_slices(operation, x, reshape(coordinates, {1, depth}), reshape(updates, {1}));
  const auto attributes = fmt::format(
      "scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = {}, inserted_window_dims = {}, "
      "scatter_dims_to_operand_dims = {}, index_vector_dim = {}>, indices_are_sorted = false, unique_indices = false",
      hlo_list(counted(batch, updates.dim())), hlo_list(counted(0, depth)), hlo_list(counted(0, depth)), batch);
  const Hlo scalar{"", x.dtype, {}};
  return generic("scatter", {x, coordinates, updates}, {x}, attributes,
                 {{{scalar, scalar}, combine_with(operation)}})[0];
}

Hlo HloWriter::scatter_along(std::string_view operation, const Hlo& x, int64_t dim, const Hlo& indices,
                             const Hlo& updates) {
  const auto attributes = fmt::format(
      "scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = {}, inserted_window_dims = [{}], "
      "scatter_dims_to_operand_dims = [{}], index_vector_dim = 1>, indices_are_sorted = false, unique_indices = false",
      hlo_list(without(counted(0, x.dim()), dim)), dim, dim);
  const Hlo scalar{"", x.dtype, {}};
  return generic("scatter", {x, indices, updates}, {x}, attributes, {{{scalar, scalar}, combine_with(operation)}})[0];
}

}  // namespace diptych::detail
