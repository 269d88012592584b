// Matrices that are given by their LU factors: the factors apart, and systems of equations. The factors themselves come
// from LAPACK.
#include "diptych/xla/hlo/index_positions.h"
#include "diptych/xla/hlo/lowering_loops.h"
#include "diptych/xla/hlo/triangular_systems.h"

namespace diptych::detail {
namespace {

/// Pivots of a batch of matrices: row i was swapped with row pivots[i], counted from one, in the order of i.
struct Pivots {
  Hlo swapped;   ///< i64 [batch..., swaps], counted from zero
  int64_t rows;  ///< of the matrix
};
Pivots pivots_of(HloWriter& writer, const Hlo& pivots, int64_t rows) {
  const Hlo whole = writer.convert(pivots, at::kLong);
  return {writer.binary("subtract", whole, writer.constant(1, at::kLong, whole.sizes)), rows};
}

// The element of each row of `x` where `is_there` is set.
Hlo only_element(HloWriter& writer, const Hlo& x, const Hlo& is_there) {
  auto sizes = x.sizes;
  sizes.back() = 1;
  const Hlo found = writer.select(is_there, x, writer.constant(0, x.dtype, x.sizes));
  const Hlo sum = writer.reduce("add", found, writer.constant(0, x.dtype), {x.dim() - 1});
  return writer.broadcast_to(writer.reshape(sum, sizes), x.sizes);
}

// Swaps elements `step` and `other` of every row; `other` has a last dimension of one.
Hlo swapped_in_rows(HloWriter& writer, const Hlo& order, const Hlo& step, const Hlo& other) {
  const Hlo position = writer.iota(at::kLong, order.sizes, order.dim() - 1);
  const Hlo is_first = writer.compare("EQ", position, writer.broadcast(step, order.sizes, {}));
  const Hlo is_second = writer.compare("EQ", position, writer.broadcast_to(other, order.sizes));
  const Hlo first = only_element(writer, order, is_first), second = only_element(writer, order, is_second);
  return writer.select(is_second, first, writer.select(is_first, second, order));
}
// The same of a single row, of which two elements are touched.
Hlo swapped_in_one(HloWriter& writer, const Hlo& order, const Hlo& step, const Hlo& other) {
  const int64_t rank = order.dim();
  const auto here = starts_along(writer, rank, rank - 1, step);
  const auto there = starts_along(writer, rank, rank - 1, writer.reshape(other, {}));
  const Hlo first = writer.dynamic_slice(order, here, other.sizes);
  const Hlo second = writer.dynamic_slice(order, there, other.sizes);
  return writer.dynamic_update_slice(writer.dynamic_update_slice(order, second, here), first, there);
}

// Where the swaps take each row: P has its ones at (order[j], j). Swaps in the reverse order undo them.
Hlo order_of_rows(HloWriter& writer, const Pivots& pivots, bool is_reversed) {
  const int64_t rank = pivots.swapped.dim(), swaps = pivots.swapped.sizes.back();
  auto sizes = pivots.swapped.sizes;
  sizes.back() = pivots.rows;
  const auto swap_two = [=](HloWriter& inner, const Hlo& index, const std::vector<Hlo>& state,
                            const std::vector<Hlo>& constant) {
    const Hlo last = inner.constant(swaps - 1, at::kLong);
    const Hlo step = is_reversed ? inner.binary("subtract", last, index) : index;
    const Hlo other = slice_at(inner, constant[0], rank - 1, step);
    const bool is_single = elements_of(other.sizes) == 1;
    return std::vector<Hlo>{is_single ? swapped_in_one(inner, state[0], step, other)
                                      : swapped_in_rows(inner, state[0], step, other)};
  };
  const Hlo begin = writer.constant(0, at::kLong), end = writer.constant(swaps, at::kLong);
  return counted_loop(writer, begin, end, {writer.iota(at::kLong, sizes, rank - 1)}, {pivots.swapped}, swap_two)[0];
}

// The rows (or columns) of `x` in an order.
Hlo in_order(HloWriter& writer, const Hlo& x, const Hlo& order, bool are_rows) {
  auto sizes = order.sizes;
  sizes.insert(are_rows ? sizes.end() : sizes.end() - 1, 1);
  const Hlo index = writer.broadcast_to(writer.reshape(order, sizes), x.sizes);
  return writer.gather_slices(x, coordinates_along(writer, index, x.dim() - (are_rows ? 2 : 1)));
}

// A = P L U. From the left A x = b is P, L and U undone in this order, and A^H x = b is the adjoints of U, L and P
// undone; from the right it is the other way round.
std::vector<Hlo> linalg_lu_solve(const Lowering& node) {
  HloWriter& writer = node.writer();
  const auto sizes = node.sizes();
  const bool is_left = node.flag(3, true), is_adjoint = node.flag(4), starts_with_pivots = is_left != is_adjoint;
  const Hlo factors = with_batch_of(writer, node.tensor(0), sizes);
  std::vector<int64_t> pivot_sizes(factors.sizes.begin(), factors.sizes.end() - 1);
  const Hlo swapped = writer.broadcast_to(node.tensor(1), pivot_sizes);
  const Hlo order = order_of_rows(writer, pivots_of(writer, swapped, factors.sizes.back()), !starts_with_pivots);
  TriangularSystem lower{
      .is_left = is_left, .has_unit_diagonal = true, .transposes = is_adjoint, .conjugates = is_adjoint};
  TriangularSystem upper{.is_left = is_left, .is_upper = true, .transposes = is_adjoint, .conjugates = is_adjoint};
  Hlo x = writer.broadcast_to(node.tensor(2), sizes);
  if (starts_with_pivots) x = in_order(writer, x, order, is_left);
  x = solve_triangular(writer, factors, x, starts_with_pivots ? lower : upper);
  x = solve_triangular(writer, factors, x, starts_with_pivots ? upper : lower);
  return {starts_with_pivots ? x : in_order(writer, x, order, is_left)};
}

Hlo permutation_matrix(const Lowering& node) {
  HloWriter& writer = node.writer();
  const auto sizes = node.sizes(0);
  auto row_sizes = sizes;
  row_sizes.erase(row_sizes.end() - 2);
  const Hlo order = order_of_rows(writer, pivots_of(writer, node.tensor(1), sizes.back()), false);
  row_sizes.insert(row_sizes.end() - 1, 1);
  const Hlo spread = writer.broadcast_to(writer.reshape(order, row_sizes), sizes);
  return writer.convert(writer.compare("EQ", spread, matrix_rows(writer, sizes)), node.dtype(0));
}

// The corner of a matrix that has `sizes`.
Hlo corner(HloWriter& writer, const Hlo& x, const std::vector<int64_t>& sizes) {
  return writer.slice(x, std::vector<int64_t>(sizes.size(), 0), sizes, std::vector<int64_t>(sizes.size(), 1));
}

std::vector<Hlo> lu_unpack(const Lowering& node) {
  HloWriter& writer = node.writer();
  const auto nothing = [&](size_t i) { return writer.constant(0, node.dtype(i), node.sizes(i)); };
  std::vector<Hlo> results{nothing(0), nothing(1), nothing(2)};
  const bool has_permutation = elements_of(node.sizes(0)) > 0, has_factors = node.flag(2, true);
  if (has_permutation) results[0] = permutation_matrix(node);
  const Hlo x = node.tensor(0);
  if (!has_factors || elements_of(x.sizes) == 0) return results;
  const Hlo row = matrix_rows(writer, x.sizes), column = matrix_columns(writer, x.sizes);
  const Hlo zeros = node.filled(0, x), ones = node.filled(1, x);
  const Hlo lower = writer.select(writer.compare("GT", row, column), x,
                                  writer.select(writer.compare("EQ", row, column), ones, zeros));
  const Hlo upper = writer.select(writer.compare("LE", row, column), x, zeros);
  results[1] = corner(writer, lower, node.sizes(1));
  results[2] = corner(writer, upper, node.sizes(2));
  return results;
}

constexpr LoweringRow kLuRows[] = {
    {"aten.linalg_lu_solve", linalg_lu_solve},
    {"aten.lu_unpack", lu_unpack},
};

}  // namespace

std::span<const LoweringRow> lu_lowerings() { return kLuRows; }

}  // namespace diptych::detail
