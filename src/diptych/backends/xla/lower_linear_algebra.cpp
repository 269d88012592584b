// Systems of equations with triangular matrices, alone or as Cholesky factors, and cross products.
#include "diptych/backends/xla/hlo_text.h"
#include "diptych/backends/xla/index_positions.h"

namespace diptych::detail {
namespace {

/// A system of equations with a triangular matrix; the other triangle is not read.
struct TriangularSystem {
  bool is_left = true;  ///< a x = b, or x a = b
  bool is_upper = false, has_unit_diagonal = false;
  bool transposes = false, conjugates = false;  ///< the matrix
};

Hlo transposed(HloWriter& writer, const Hlo& matrix) {
  auto order = counted(0, matrix.dim());
  std::swap(order[order.size() - 2], order[order.size() - 1]);
  return writer.transpose(matrix, order);
}
Hlo conjugated(HloWriter& writer, const Hlo& x) {
  if (!at::isComplexType(x.dtype)) return x;
  return writer.complex(writer.complex_part("real", x), writer.unary("negate", writer.complex_part("imag", x)));
}

// The matrix without its diagonal, and the diagonal as a column.
std::pair<Hlo, Hlo> strict_triangle_and_diagonal(HloWriter& writer, const Hlo& a, bool is_upper) {
  const int64_t rank = a.dim();
  const Hlo row = writer.iota(at::kLong, a.sizes, rank - 2), column = writer.iota(at::kLong, a.sizes, rank - 1);
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

// A matrix, or a batch of them, with the leading dimensions of the result.
Hlo with_batch_of(HloWriter& writer, const Hlo& matrix, const std::vector<int64_t>& sizes) {
  std::vector<int64_t> spread(sizes.begin(), sizes.end() - 2);
  spread.insert(spread.end(), matrix.sizes.end() - 2, matrix.sizes.end());
  return writer.broadcast_to(matrix, spread);
}

std::vector<Hlo> linalg_solve_triangular(const Lowering& node) {
  HloWriter& writer = node.writer();
  const Hlo a = with_batch_of(writer, node.tensor(0), node.sizes()),
            b = writer.broadcast_to(node.tensor(1), node.sizes());
  return {solve_triangular(
      writer, a, b, {.is_left = node.flag(3, true), .is_upper = node.flag(2), .has_unit_diagonal = node.flag(4)})};
}

// The older operator takes the right side first, and returns the matrix, too.
std::vector<Hlo> triangular_solve(const Lowering& node) {
  HloWriter& writer = node.writer();
  const Hlo a = with_batch_of(writer, node.tensor(1), node.sizes()),
            b = writer.broadcast_to(node.tensor(0), node.sizes());
  const bool has_solution = elements_of(node.sizes()) > 0;
  const TriangularSystem system{
      .is_upper = node.flag(2, true), .has_unit_diagonal = node.flag(4), .transposes = node.flag(3)};
  const Hlo x = has_solution ? solve_triangular(writer, a, b, system) : b;
  return {x, a};
}

// The solution for a matrix that is given by its Cholesky factor: one factor after the other.
Hlo solve_by_factor(HloWriter& writer, const Hlo& factor, const Hlo& b, bool is_upper) {
  const TriangularSystem plain{.is_upper = is_upper};
  const TriangularSystem adjoint{.is_upper = is_upper, .transposes = true, .conjugates = true};
  const Hlo first = solve_triangular(writer, factor, b, is_upper ? adjoint : plain);
  return solve_triangular(writer, factor, first, is_upper ? plain : adjoint);
}
std::vector<Hlo> cholesky_solve(const Lowering& node) {
  HloWriter& writer = node.writer();
  const Hlo factor = with_batch_of(writer, node.tensor(1), node.sizes());
  return {solve_by_factor(writer, factor, writer.broadcast_to(node.tensor(0), node.sizes()), node.flag(2))};
}
std::vector<Hlo> cholesky_inverse(const Lowering& node) {
  HloWriter& writer = node.writer();
  const auto sizes = node.sizes();
  const auto rank = static_cast<int64_t>(sizes.size());
  const Hlo row = writer.iota(at::kLong, sizes, rank - 2), column = writer.iota(at::kLong, sizes, rank - 1);
  const Hlo identity = writer.convert(writer.compare("EQ", row, column), node.dtype());
  return {solve_by_factor(writer, node.tensor(0), identity, node.flag(1))};
}
// LAPACK takes the diagonal of a complex factor for real, and does not look whether it is.
bool has_real_float_factor(const Lowering& node) { return at::isFloatingType(node.dtype()); }

// Element i of a cross product is made of the two that follow it, and the one after the last is the first.
std::vector<Hlo> linalg_cross(const Lowering& node) {
  HloWriter& writer = node.writer();
  const auto computed = Lowering::wide(node.dtype());
  const Hlo a = node.spread(0, computed), b = node.spread(1, computed);
  const int64_t dim = Lowering::wrap(node.integer(2, -1), a.dim());
  const auto rolled = [&](const Hlo& x, int64_t by) {
    return writer.concatenate({writer.slice_along(x, dim, by, 3), writer.slice_along(x, dim, 0, by)}, dim);
  };
  const Hlo first = writer.binary("multiply", rolled(a, 1), rolled(b, 2));
  const Hlo second = writer.binary("multiply", rolled(a, 2), rolled(b, 1));
  return {writer.convert(writer.binary("subtract", first, second), node.dtype())};
}
bool is_cross_of_numbers(const Lowering& node) { return node.dtype() != at::kBool; }

constexpr LoweringRow kLinearAlgebraRows[] = {
    {"aten.linalg_solve_triangular", linalg_solve_triangular},
    {"aten.triangular_solve", triangular_solve},
    {"aten.cholesky_solve", cholesky_solve},
    {"aten._cholesky_solve_helper", cholesky_solve},
    {"aten.cholesky_inverse", cholesky_inverse, has_real_float_factor},
    {"aten.linalg_cross", linalg_cross, is_cross_of_numbers},
};

}  // namespace

std::span<const LoweringRow> linear_algebra_lowerings() { return kLinearAlgebraRows; }

}  // namespace diptych::detail
