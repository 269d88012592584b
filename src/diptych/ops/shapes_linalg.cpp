// Shapes of linear algebra that has no C++ Meta kernel. LAPACK's routines work on column-major matrices, so most
// results come out with their last two dimensions transposed.
#include <ATen/ExpandUtils.h>

#include "diptych/ops/shapes_table.h"

namespace diptych::detail {
namespace {

// A batch of column-major matrices.
at::Tensor column_major(const std::vector<int64_t>& sizes, at::ScalarType dtype) {
  auto swapped = sizes;
  std::swap(swapped[swapped.size() - 1], swapped[swapped.size() - 2]);
  return meta_empty(swapped, dtype).mT();
}

at::Tensor column_major_like(const at::Tensor& self) { return column_major(self.sizes().vec(), self.scalar_type()); }

void check_square(const at::Tensor& self, const char* name) {
  TORCH_CHECK(self.dim() >= 2, name, ": The input tensor must have at least 2 dimensions.");
  TORCH_CHECK(self.size(-1) == self.size(-2), name, ": A must be batches of square matrices, but they are ",
              self.size(-2), " by ", self.size(-1), " matrices");
}

at::Tensor cholesky(const at::Tensor& self, bool) {
  check_square(self, "cholesky");
  return column_major_like(self);
}

at::Tensor cholesky_inverse(const at::Tensor& self, bool) {
  check_square(self, "cholesky_inverse");
  return column_major_like(self);
}

at::Tensor cholesky_solve_helper(const at::Tensor& self, const at::Tensor&, bool) { return column_major_like(self); }

TwoTensors geqrf(const at::Tensor& self) {
  auto sizes = self.sizes().vec();
  const int64_t columns = sizes.back(), rows = sizes[sizes.size() - 2];
  sizes.pop_back();
  sizes.back() = std::min(rows, columns);
  return {column_major_like(self), meta_empty(sizes, self.scalar_type())};
}

at::Tensor householder_product(const at::Tensor& self, const at::Tensor&) { return column_major_like(self); }

at::Tensor ormqr(const at::Tensor&, const at::Tensor&, const at::Tensor& other, bool, bool) {
  return column_major_like(other);
}

at::Tensor matrix_exp(const at::Tensor& self) {
  check_square(self, "linalg.matrix_exp");
  return meta_empty(self.sizes(), self.scalar_type());
}

at::Tensor solve_triangular(const at::Tensor& self, const at::Tensor& other, bool, bool, bool) {
  check_square(self, "linalg.solve_triangular");
  const auto batch = [](const at::Tensor& t) { return t.sizes().slice(0, static_cast<size_t>(t.dim()) - 2); };
  auto sizes = at::infer_size(batch(self), batch(other));
  sizes.push_back(other.size(-2));
  sizes.push_back(other.size(-1));
  return column_major(sizes, self.scalar_type());
}

std::vector<int64_t> eigenvalue_sizes(const at::Tensor& self) {
  check_square(self, "linalg.eig");
  return self.sizes().slice(0, static_cast<size_t>(self.dim()) - 1).vec();
}

TwoTensors eig(const at::Tensor& self) {
  const auto dtype = c10::toComplexType(self.scalar_type());
  return {meta_empty(eigenvalue_sizes(self), dtype), column_major(self.sizes().vec(), dtype)};
}

at::Tensor eigvals(const at::Tensor& self) {
  return meta_empty(eigenvalue_sizes(self), c10::toComplexType(self.scalar_type()));
}

at::Tensor addbmm(const at::Tensor& self, const at::Tensor& a, const at::Tensor& b, const at::Scalar&,
                  const at::Scalar&) {
  TORCH_CHECK(a.dim() == 3 && b.dim() == 3 && a.size(0) == b.size(0) && a.size(2) == b.size(1),
              "addbmm: batches of matrices do not fit together: ", a.sizes(), " and ", b.sizes());
  return meta_empty({a.size(1), b.size(2)}, self.scalar_type());
}

at::Tensor int_mm(const at::Tensor& self, const at::Tensor& other) {
  return meta_empty({self.size(0), other.size(1)}, at::kInt);
}

}  // namespace

ShapeRows linalg_shapes() {
  return {
      typed_row<cholesky>("aten::cholesky"),
      typed_row<cholesky_inverse>("aten::cholesky_inverse"),
      typed_row<cholesky_solve_helper>("aten::_cholesky_solve_helper"),
      typed_row<geqrf>("aten::geqrf"),
      typed_row<householder_product>("aten::linalg_householder_product"),
      typed_row<ormqr>("aten::ormqr"),
      typed_row<matrix_exp>("aten::linalg_matrix_exp"),
      typed_row<solve_triangular>("aten::linalg_solve_triangular"),
      typed_row<eig>("aten::linalg_eig"),
      typed_row<eigvals>("aten::_linalg_eigvals"),
      typed_row<addbmm>("aten::addbmm"),
      typed_row<int_mm>("aten::_int_mm"),
  };
}

}  // namespace diptych::detail
