// Systems of equations with triangular matrices, alone or as Cholesky factors, and cross products.
#include "diptych/xla/hlo/index_positions.h"
#include "diptych/xla/hlo/triangular_systems.h"

namespace diptych::detail {
namespace {

std::vector<Hlo> linalg_solve_triangular(const Lowering& node) {
  HloWriter& writer = node.writer();
  const Hlo a = with_batch_of(writer, node.tensor(0), node.sizes()),
            b = writer.broadcast_to(node.tensor(1), node.sizes());
  return {solve_triangular(
      writer, a, b, {.is_left = node.flag(3, true), .is_upper = node.flag(2), .has_unit_diagonal = node.flag(4)})};
}

// Eager takes a right side of another dtype for what its memory is not.
bool has_one_dtype(const Lowering& node) {
  const auto dtype = [&](size_t i) { return node.graph().meta(std::get<Value>(node.node().operands[i])).dtype; };
  return dtype(0) == dtype(1);
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
  const Hlo identity = identity_matrix(writer, node.dtype(), node.sizes());
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
    {"aten.linalg_solve_triangular", linalg_solve_triangular, has_one_dtype},
    {"aten.triangular_solve", triangular_solve, has_one_dtype},
    {"aten.cholesky_solve", cholesky_solve},
    {"aten._cholesky_solve_helper", cholesky_solve},
    {"aten.cholesky_inverse", cholesky_inverse, has_real_float_factor},
    {"aten.linalg_cross", linalg_cross, is_cross_of_numbers},
};

}  // namespace

std::span<const LoweringRow> linear_algebra_lowerings() { return kLinearAlgebraRows; }

}  // namespace diptych::detail
