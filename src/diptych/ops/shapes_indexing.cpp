// Shapes of operators that pick, move or look up elements.
#include <ATen/WrapDimUtils.h>
#include <ATen/ops/cat.h>

#include <algorithm>

#include "diptych/ops/shapes_table.h"

namespace diptych::detail {
namespace {

at::Tensor index_select(const at::Tensor& self, int64_t dim, const at::Tensor& index) {
  TORCH_CHECK_INDEX(index.dim() <= 1, "index_select(): Index is supposed to be a vector, but got dim: ", index.dim());
  dim = at::maybe_wrap_dim(dim, self.dim());
  auto sizes = self.sizes().vec();
  if (!sizes.empty()) sizes[static_cast<size_t>(dim)] = index.numel();
  return meta_empty(sizes, self.scalar_type());
}

at::Tensor flip(const at::Tensor& self, at::IntArrayRef dims) {
  for (const int64_t dim : dims) at::maybe_wrap_dim(dim, self.dim());
  return meta_like(self);
}

// One dimension is rolled by joining its two parts, so cat chooses the layout.
at::Tensor roll_one(const at::Tensor& self, int64_t shift, int64_t dim) {
  const int64_t size = self.size(dim);
  const int64_t start = ((size - shift) % size + size) % size;
  return at::cat({self.narrow(dim, start, size - start), self.narrow(dim, 0, start)}, dim);
}

at::Tensor roll(const at::Tensor& self, at::IntArrayRef shifts, at::IntArrayRef dims) {
  TORCH_CHECK(!shifts.empty() && (dims.empty() ? shifts.size() == 1 : shifts.size() == dims.size()),
              "roll: shifts and dimensions must align. shifts: ", shifts.size(), ", dims:", dims.size());
  if (self.numel() == 0) return meta_like(self);
  if (dims.empty()) return meta_empty(self.sizes(), self.scalar_type());
  at::Tensor result = self;
  for (size_t i = 0; i < dims.size(); ++i) result = roll_one(result, shifts[i], dims[i]);
  return result;
}

at::Tensor take(const at::Tensor& self, const at::Tensor& index) {
  return meta_empty(index.sizes(), self.scalar_type());
}

// Contiguous, where nonzero() and torch's kernel for meta tensors are transposed.
at::Tensor nonzero_static(const at::Tensor& self, int64_t size, int64_t) {
  TORCH_CHECK(size >= 0, "nonzero_static: 'size' must be an non-negative integer");
  return meta_empty({size, self.dim()}, at::kLong);
}

at::ScalarType index_dtype(bool out_int32) { return out_int32 ? at::kInt : at::kLong; }

at::Tensor bucketize(const at::Tensor& self, const at::Tensor&, bool out_int32, bool) {
  return meta_empty(self.sizes(), index_dtype(out_int32));
}

at::Tensor bucketize_scalar(const at::Scalar&, const at::Tensor&, bool out_int32, bool) {
  return meta_empty({}, index_dtype(out_int32));
}

at::Tensor searchsorted(const at::Tensor&, const at::Tensor& self, bool out_int32, bool,
                        std::optional<std::string_view>, const OptionalTensor&) {
  return meta_empty(self.sizes(), index_dtype(out_int32));
}

at::Tensor searchsorted_scalar(const at::Tensor&, const at::Scalar&, bool out_int32, bool,
                               std::optional<std::string_view>, const OptionalTensor&) {
  return meta_empty({}, index_dtype(out_int32));
}

at::Tensor unfold_backward(const at::Tensor& grad, at::IntArrayRef input_sizes, int64_t, int64_t, int64_t) {
  return meta_empty(input_sizes, grad.scalar_type());
}

// ATen's own function refuses an index without elements.
at::Tensor index_add(const at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Tensor& source,
                     const at::Scalar&) {
  const int64_t axis = at::maybe_wrap_dim(dim, self.dim());
  TORCH_CHECK_INDEX(index.dim() <= 1, "index_add(): Index is supposed to be a vector, but got dim: ", index.dim());
  TORCH_CHECK(self.scalar_type() == source.scalar_type(), "index_add(): self (", self.scalar_type(), ") and source (",
              source.scalar_type(), ") must have the same scalar type");
  TORCH_CHECK(source.dim() == self.dim() || source.dim() == 0, "index_add(): source has ", source.dim(),
              " dimensions, self has ", self.dim());
  for (int64_t d = 0; d < source.dim(); ++d) {
    const int64_t expected = d == axis ? index.numel() : self.size(d);
    TORCH_CHECK(source.size(d) == expected, "index_add(): source has size ", source.size(d), " in dimension ", d,
                ", expected ", expected);
  }
  return meta_contiguous_like(self);
}

at::Tensor triangle_indices(bool lower, int64_t rows, int64_t cols, int64_t offset, OptionalDtype dtype) {
  int64_t count = 0;
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t in_lower = std::clamp<int64_t>(row + offset + 1, 0, cols);
    const int64_t before_upper = std::clamp<int64_t>(row + offset, 0, cols);
    count += lower ? in_lower : cols - before_upper;
  }
  return meta_empty({2, count}, dtype.value_or(at::kLong));
}

at::Tensor tril_indices(int64_t rows, int64_t cols, int64_t offset, OptionalDtype dtype, std::optional<at::Layout>,
                        std::optional<at::Device>, std::optional<bool>) {
  return triangle_indices(/*lower=*/true, rows, cols, offset, dtype);
}

at::Tensor triu_indices(int64_t rows, int64_t cols, int64_t offset, OptionalDtype dtype, std::optional<at::Layout>,
                        std::optional<at::Device>, std::optional<bool>) {
  return triangle_indices(/*lower=*/false, rows, cols, offset, dtype);
}

}  // namespace

ShapeRows indexing_shapes() {
  return {
      typed_row<index_select>("aten::index_select"),
      typed_row<flip>("aten::flip"),
      typed_row<roll>("aten::roll"),
      typed_row<take>("aten::take"),
      typed_row<nonzero_static>("aten::nonzero_static"),
      typed_row<bucketize>("aten::bucketize.Tensor"),
      typed_row<bucketize_scalar>("aten::bucketize.Scalar"),
      typed_row<searchsorted>("aten::searchsorted.Tensor"),
      typed_row<searchsorted_scalar>("aten::searchsorted.Scalar"),
      typed_row<unfold_backward>("aten::unfold_backward"),
      typed_row<index_add>("aten::index_add"),
      typed_row<tril_indices>("aten::tril_indices"),
      typed_row<triu_indices>("aten::triu_indices"),
  };
}

}  // namespace diptych::detail
