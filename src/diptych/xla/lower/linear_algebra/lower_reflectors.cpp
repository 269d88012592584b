// Products of Householder's reflectors, as QR factorizations leave them: H = 1 - tau v v^H, where the first element of
// v that is not zero is a one that is not stored. The factorizations themselves come from LAPACK.
#include "diptych/xla/hlo/hlo_term.h"
#include "diptych/xla/hlo/hlo_text.h"
#include "diptych/xla/hlo/index_positions.h"
#include "diptych/xla/hlo/lowering_loops.h"
#include "diptych/xla/hlo/triangular_systems.h"

namespace diptych::detail {
namespace {

/// Reflectors that are applied to a matrix, one after the other.
struct Reflectors {
  Hlo vectors, factors;  ///< [batch..., rows, count], and [batch..., 1, count]
  bool is_left = true, is_adjoint = false;
  // From the left the last reflector of a product comes first.
  bool is_descending() const { return is_left != is_adjoint; }
};

Reflectors reflectors_of(HloWriter& writer, const Hlo& stored, const Hlo& factors) {
  const HloTerm x(writer, stored), row(writer, matrix_rows(writer, stored.sizes));
  const HloTerm column(writer, matrix_columns(writer, stored.sizes));
  const HloTerm vectors = (row > column).choose(x, row.equals(column).choose(1.0, x.like(0)));
  auto sizes = factors.sizes;
  sizes.insert(sizes.end() - 1, 1);
  const int64_t count = factors.sizes.back();
  return {writer.slice_along(vectors.value(), stored.dim() - 1, 0, count), writer.reshape(factors, sizes)};
}

// x - tau v (v^H x), or x - tau (x v) v^H.
Hlo reflected(HloWriter& writer, const Hlo& x, const Hlo& v, const Hlo& tau, bool is_left) {
  const int64_t rank = x.dim();
  const auto batch = counted(0, rank - 2);
  const auto spread = [&](const Hlo& of) { return HloTerm(writer, writer.broadcast_to(of, x.sizes)); };
  const Hlo adjoint = conjugated(writer, transposed(writer, v));
  const DotDimensions dims{batch, batch, {rank - 1}, {rank - 2}};
  const Hlo product = is_left ? writer.dot_general(adjoint, x, dims, x.dtype) : writer.dot_general(x, v, dims, x.dtype);
  const HloTerm change = spread(tau) * spread(is_left ? v : adjoint) * spread(product);
  return (HloTerm(writer, x) - change).value();
}

Hlo apply_reflectors(HloWriter& writer, const Hlo& x, const Reflectors& all) {
  const int64_t count = all.factors.sizes.back(), rank = all.factors.dim();
  const bool is_descending = all.is_descending(), is_left = all.is_left;
  const auto apply_one = [=](HloWriter& inner, const Hlo& index, const std::vector<Hlo>& state,
                             const std::vector<Hlo>& constant) {
    const Hlo last = inner.constant(count - 1, at::kLong);
    const Hlo place = is_descending ? inner.binary("subtract", last, index) : index;
    const Hlo v = slice_at(inner, constant[0], rank - 1, place), tau = slice_at(inner, constant[1], rank - 1, place);
    return std::vector<Hlo>{reflected(inner, state[0], v, tau, is_left)};
  };
  const Hlo factors = all.is_adjoint ? conjugated(writer, all.factors) : all.factors;
  const Hlo begin = writer.constant(0, at::kLong), end = writer.constant(count, at::kLong);
  return counted_loop(writer, begin, end, {x}, {all.vectors, factors}, apply_one)[0];
}

std::vector<Hlo> householder_product(const Lowering& node) {
  HloWriter& writer = node.writer();
  const Hlo identity = identity_matrix(writer, node.dtype(), node.sizes());
  if (node.tensor(1).sizes.back() == 0) return {identity};
  return {apply_reflectors(writer, identity, reflectors_of(writer, node.tensor(0), node.tensor(1)))};
}
std::vector<Hlo> ormqr(const Lowering& node) {
  Reflectors all = reflectors_of(node.writer(), node.tensor(0), node.tensor(1));
  all.is_left = node.flag(3, true);
  all.is_adjoint = node.flag(4);
  return {apply_reflectors(node.writer(), node.tensor(2), all)};
}
bool has_reflectors(const Lowering& node) { return operand_meta(node, 1)->numel() > 0; }

constexpr LoweringRow kReflectorRows[] = {
    {"aten.linalg_householder_product", householder_product},
    {"aten.ormqr", ormqr, has_reflectors},
};

}  // namespace

std::span<const LoweringRow> reflector_lowerings() { return kReflectorRows; }

}  // namespace diptych::detail
