// Systems of equations with triangular matrices, which other systems are reduced to.
#pragma once
#include <vector>

#include "diptych/xla/hlo/hlo_writer.h"

namespace diptych::detail {

/// A system of equations with a triangular matrix; the other triangle is not read.
struct TriangularSystem {
  bool is_left = true;  ///< a x = b, or x a = b
  bool is_upper = false, has_unit_diagonal = false;
  bool transposes = false, conjugates = false;  ///< the matrix
};

/// Solves a system. Requires: equal leading dimensions.
Hlo solve_triangular(HloWriter& writer, const Hlo& a, const Hlo& b, const TriangularSystem& system);

/// The matrices of a batch, transposed.
Hlo transposed(HloWriter& writer, const Hlo& matrix);
/// Complex numbers conjugated; others as they are.
Hlo conjugated(HloWriter& writer, const Hlo& x);
/// A matrix, or a batch of them, with the leading dimensions of `sizes`.
Hlo with_batch_of(HloWriter& writer, const Hlo& matrix, const std::vector<int64_t>& sizes);

}  // namespace diptych::detail
