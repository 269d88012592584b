#include "diptych/xla/hlo/triangular_systems.h"

#include <utility>

#include "diptych/xla/hlo/hlo_text.h"
#include "diptych/xla/hlo/index_positions.h"
#include "diptych/xla/hlo/lowering_loops.h"

namespace diptych::detail {
namespace {

// The matrix without its diagonal, and the diagonal as a column.
std::pair<Hlo, Hlo> strict_triangle_and_diagonal(HloWriter& writer, const Hlo& a, bool is_upper) {
  const int64_t rank = a.dim();
  const Hlo row = matrix_rows(writer, a.sizes), column = matrix_columns(writer, a.sizes);
  const Hlo zeros = writer.constant(0, a.dtype, a.sizes);
  const Hlo strict = writer.select(writer.compare(is_upper ? "LT" : "GT", row, column), a, zeros);
  // Sums of zeros with a sign leave a pivot of zero its own.
  const auto none = at::isComplexType(a.dtype) ? at::Scalar(c10::complex<double>(-0.0, -0.0)) : at::Scalar(-0.0);
  const Hlo diagonal = writer.select(writer.compare("EQ", row, column), a, writer.constant(none, a.dtype, a.sizes));
  auto sizes = a.sizes;
  sizes.back() = 1;
  return {strict, writer.reshape(writer.reduce("add", diagonal, writer.constant(none, a.dtype), {rank - 1}), sizes)};
}

// Solves a x = b row by row. HLO's own operation multiplies by inverses of blocks, which loses digits, and spreads the
// NaN of a pivot that is zero or infinite over rows that do not depend on it.
Hlo substitute(HloWriter& writer, const Hlo& a, const Hlo& b, bool is_upper, bool has_unit_diagonal) {
  const int64_t rank = a.dim(), count = a.sizes.back(), row_dim = rank - 2;
  const auto [strict, diagonal] = strict_triangle_and_diagonal(writer, a, is_upper);
  const auto batch = counted(0, row_dim);
  const auto solve_row = [=](HloWriter& inner, const Hlo& step, const std::vector<Hlo>& state,
                             const std::vector<Hlo>& constant) {
    const Hlo last = inner.constant(count - 1, at::kLong);
    const Hlo place = is_upper ? inner.binary("subtract", last, step) : step;
    const auto row_of = [&](const Hlo& matrix) { return slice_at(inner, matrix, row_dim, place); };
    const DotDimensions dims{batch, batch, {rank - 1}, {row_dim}};
    const Hlo known = inner.dot_general(row_of(constant[0]), state[0], dims, state[0].dtype);
    Hlo row = inner.binary("subtract", row_of(constant[1]), known);
    if (!has_unit_diagonal) {
      row = inner.binary("divide", row, inner.broadcast(row_of(constant[2]), row.sizes, counted(0, rank)));
    }
    return std::vector<Hlo>{inner.dynamic_update_slice(state[0], row, starts_along(inner, rank, row_dim, place))};
  };
  const Hlo zeros = writer.constant(0, b.dtype, b.sizes);
  const Hlo begin = writer.constant(0, at::kLong), end = writer.constant(count, at::kLong);
  return counted_loop(writer, begin, end, {zeros}, {strict, b, diagonal}, solve_row)[0];
}

}  // namespace

Hlo transposed(HloWriter& writer, const Hlo& matrix) {
  return writer.swap_dims(matrix, matrix.dim() - 2, matrix.dim() - 1);
}
Hlo conjugated(HloWriter& writer, const Hlo& x) {
  if (!at::isComplexType(x.dtype)) return x;
  return writer.complex(writer.complex_part("real", x), writer.unary("negate", writer.complex_part("imag", x)));
}

// x a = b is a system of the transposes, and a transposed lower matrix is an upper one.
Hlo solve_triangular(HloWriter& writer, const Hlo& a, const Hlo& b, const TriangularSystem& system) {
  const bool transposes = system.transposes == system.is_left;
  Hlo matrix = system.conjugates ? conjugated(writer, a) : a;
  if (transposes) matrix = transposed(writer, matrix);
  const bool is_upper = system.is_upper != transposes;
  const Hlo x =
      substitute(writer, matrix, system.is_left ? b : transposed(writer, b), is_upper, system.has_unit_diagonal);
  return system.is_left ? x : transposed(writer, x);
}

Hlo with_batch_of(HloWriter& writer, const Hlo& matrix, const std::vector<int64_t>& sizes) {
  std::vector<int64_t> spread(sizes.begin(), sizes.end() - 2);
  spread.insert(spread.end(), matrix.sizes.end() - 2, matrix.sizes.end());
  return writer.broadcast_to(matrix, spread);
}

}  // namespace diptych::detail
