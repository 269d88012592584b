#include "diptych/backends/xla/triangular_systems.h"

#include <utility>

#include "diptych/backends/xla/hlo_text.h"

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

// Row i of each matrix of a batch.
Hlo row_at(HloWriter& writer, const Hlo& x, const std::vector<Hlo>& starts) {
  auto sizes = x.sizes;
  sizes[sizes.size() - 2] = 1;
  return writer.dynamic_slice(x, starts, sizes);
}
std::vector<Hlo> starts_of_row(HloWriter& writer, const Hlo& row, int64_t rank) {
  std::vector<Hlo> starts(rank, writer.constant(0, at::kLong));
  starts[rank - 2] = row;
  return starts;
}

// Solves a x = b row by row. HLO's own operation multiplies by inverses of blocks, which loses digits, and spreads the
// NaN of a pivot that is zero or infinite over rows that do not depend on it.
Hlo substitute(HloWriter& writer, const Hlo& a, const Hlo& b, bool is_upper, bool has_unit_diagonal) {
  const int64_t rank = a.dim(), count = a.sizes.back();
  const auto [strict, diagonal] = strict_triangle_and_diagonal(writer, a, is_upper);
  const auto batch = counted(0, rank - 2);
  const auto is_open = [=](HloWriter& inner, std::span<const Hlo> state) {
    return std::vector<Hlo>{inner.compare("LT", state[0], inner.constant(count, at::kLong))};
  };
  const auto solve_row = [=](HloWriter& inner, std::span<const Hlo> state) {
    const Hlo &step = state[0], &x = state[1];
    const Hlo from_end = inner.binary("subtract", inner.constant(count - 1, at::kLong), step);
    const auto starts = starts_of_row(inner, is_upper ? from_end : step, rank);
    const DotDimensions dims{batch, batch, {rank - 1}, {rank - 2}};
    const Hlo known = inner.dot_general(row_at(inner, state[2], starts), x, dims, x.dtype);
    Hlo row = inner.binary("subtract", row_at(inner, state[3], starts), known);
    if (!has_unit_diagonal) {
      const Hlo pivot = row_at(inner, state[4], starts);
      row = inner.binary("divide", row, inner.broadcast(pivot, row.sizes, counted(0, rank)));
    }
    const Hlo next = inner.binary("add", step, inner.constant(1, at::kLong));
    return std::vector<Hlo>{next, inner.dynamic_update_slice(x, row, starts), state[2], state[3], state[4]};
  };
  const Hlo zeros = writer.constant(0, b.dtype, b.sizes);
  return writer.while_loop({writer.constant(0, at::kLong), zeros, strict, b, diagonal}, is_open, solve_row)[1];
}

}  // namespace

Hlo transposed(HloWriter& writer, const Hlo& matrix) {
  auto order = counted(0, matrix.dim());
  std::swap(order[order.size() - 2], order[order.size() - 1]);
  return writer.transpose(matrix, order);
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

Hlo matrix_rows(HloWriter& writer, const std::vector<int64_t>& sizes) {
  return writer.iota(at::kLong, sizes, static_cast<int64_t>(sizes.size()) - 2);
}
Hlo matrix_columns(HloWriter& writer, const std::vector<int64_t>& sizes) {
  return writer.iota(at::kLong, sizes, static_cast<int64_t>(sizes.size()) - 1);
}

}  // namespace diptych::detail
