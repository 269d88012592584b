// Shapes of reductions, scans and order statistics that have no C++ Meta kernel.
#include <ATen/WrapDimUtils.h>
#include <ATen/native/ReduceOpsUtils.h>

#include "diptych/ops/shapes_table.h"

namespace diptych::detail {
namespace {

std::vector<int64_t> reduced_sizes(const at::Tensor& self, at::OptionalIntArrayRef dims, bool keepdim) {
  const auto mask = at::native::make_dim_mask(dims, self.dim(), /*allow_empty_dims=*/false);
  std::vector<int64_t> sizes;
  for (int64_t i = 0; i < self.dim(); ++i) {
    if (!mask[static_cast<size_t>(i)])
      sizes.push_back(self.size(i));
    else if (keepdim)
      sizes.push_back(1);
  }
  return sizes;
}

at::Tensor full_reduction(const at::Tensor& self) { return meta_empty({}, self.scalar_type()); }

at::ScalarType sum_dtype(const at::Tensor& self, OptionalDtype dtype) {
  if (dtype.has_value()) return *dtype;
  return c10::isIntegralType(self.scalar_type(), /*includeBool=*/true) ? at::kLong : self.scalar_type();
}

at::Tensor prod(const at::Tensor& self, OptionalDtype dtype) { return meta_empty({}, sum_dtype(self, dtype)); }

at::Tensor nansum(const at::Tensor& self, at::OptionalIntArrayRef dims, bool keepdim, OptionalDtype dtype) {
  return meta_empty(reduced_sizes(self, dims, keepdim), sum_dtype(self, dtype));
}

at::ScalarType real_dtype(const at::Tensor& self) { return c10::toRealValueType(self.scalar_type()); }

at::Tensor variance(const at::Tensor& self, at::OptionalIntArrayRef dims, const std::optional<at::Scalar>&,
                    bool keepdim) {
  return meta_empty(reduced_sizes(self, dims, keepdim), real_dtype(self));
}

TwoTensors variance_and_mean(const at::Tensor& self, at::OptionalIntArrayRef dims, const std::optional<at::Scalar>&,
                             bool keepdim) {
  const auto sizes = reduced_sizes(self, dims, keepdim);
  return {meta_empty(sizes, real_dtype(self)), meta_empty(sizes, self.scalar_type())};
}

TwoTensors aminmax_all(const at::Tensor& self) { return {full_reduction(self), full_reduction(self)}; }

TwoTensors aminmax_dim(const at::Tensor& self, int64_t dim, bool keepdim) {
  const auto sizes = reduced_sizes(self, at::IntArrayRef(dim), keepdim);
  return {meta_empty(sizes, self.scalar_type()), meta_empty(sizes, self.scalar_type())};
}

at::Tensor count_nonzero(const at::Tensor& self, at::IntArrayRef dims) {
  return meta_empty(reduced_sizes(self, dims, /*keepdim=*/false), at::kLong);
}

TwoTensors value_and_index(const at::Tensor& self, int64_t dim, bool keepdim) {
  const auto sizes = reduced_sizes(self, at::IntArrayRef(dim), keepdim);
  return {meta_empty(sizes, self.scalar_type()), meta_empty(sizes, at::kLong)};
}

TwoTensors kthvalue(const at::Tensor& self, int64_t, int64_t dim, bool keepdim) {
  return value_and_index(self, dim, keepdim);
}

TwoTensors cumulative_extreme(const at::Tensor& self, int64_t dim) {
  at::maybe_wrap_dim(dim, self.dim());
  return {meta_empty(self.sizes(), self.scalar_type()), meta_empty(self.sizes(), at::kLong)};
}

at::Tensor logcumsumexp(const at::Tensor& self, int64_t dim) {
  at::maybe_wrap_dim(dim, self.dim());
  return meta_empty(self.sizes(), self.scalar_type());
}

at::Tensor dot(const at::Tensor& self, const at::Tensor& other) {
  TORCH_CHECK(self.dim() == 1 && other.dim() == 1 && self.numel() == other.numel(),
              "inconsistent tensor size, expected tensors of one length, but got ", self.sizes(), " and ",
              other.sizes());
  return full_reduction(self);
}

at::Tensor trace(const at::Tensor& self) {
  TORCH_CHECK(self.dim() == 2, "trace: expected a matrix, but got tensor with dim ", self.dim());
  return meta_empty({}, sum_dtype(self, std::nullopt));
}

at::Tensor histc(const at::Tensor& self, int64_t bins, const at::Scalar&, const at::Scalar&) {
  return meta_empty({bins}, self.scalar_type());
}

}  // namespace

ShapeRows reduction_shapes() {
  return {
      typed_row<full_reduction>("aten::max"),
      typed_row<full_reduction>("aten::min"),
      typed_row<full_reduction>("aten::median"),
      typed_row<full_reduction>("aten::nanmedian"),
      typed_row<value_and_index>("aten::median.dim"),
      typed_row<value_and_index>("aten::nanmedian.dim"),
      typed_row<value_and_index>("aten::mode"),
      typed_row<kthvalue>("aten::kthvalue"),
      typed_row<prod>("aten::prod"),
      typed_row<nansum>("aten::nansum"),
      typed_row<variance>("aten::var.correction"),
      typed_row<variance>("aten::std.correction"),
      typed_row<variance_and_mean>("aten::var_mean.correction"),
      typed_row<variance_and_mean>("aten::std_mean.correction"),
      typed_row<aminmax_all>("aten::_aminmax"),
      typed_row<aminmax_dim>("aten::_aminmax.dim"),
      typed_row<count_nonzero>("aten::count_nonzero.dim_IntList"),
      typed_row<cumulative_extreme>("aten::cummax"),
      typed_row<cumulative_extreme>("aten::cummin"),
      typed_row<logcumsumexp>("aten::_logcumsumexp"),
      typed_row<logcumsumexp>("aten::logcumsumexp"),
      typed_row<dot>("aten::dot"),
      typed_row<dot>("aten::vdot"),
      typed_row<trace>("aten::trace"),
      typed_row<histc>("aten::histc"),
  };
}

}  // namespace diptych::detail
