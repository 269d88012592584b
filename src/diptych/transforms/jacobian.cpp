#include "diptych/transforms/jacobian.h"

#include <ATen/ops/eye.h>

namespace diptych::detail {
namespace {

std::vector<int64_t> joined_sizes(at::IntArrayRef first, at::IntArrayRef second) {
  std::vector<int64_t> sizes = first.vec();
  sizes.insert(sizes.end(), second.begin(), second.end());
  return sizes;
}

}  // namespace

at::Tensor basis_like(const at::Tensor& like) {
  const int64_t count = like.numel();
  return at::eye(count, like.options().requires_grad(false)).view(joined_sizes({count}, like.sizes()));
}

at::Tensor from_rows(const at::Tensor& rows, const at::Tensor& result) {
  return rows.reshape(joined_sizes(result.sizes(), rows.sizes().slice(1)));
}

at::Tensor from_columns(const at::Tensor& columns, const at::Tensor& argument) {
  return columns.movedim(0, -1).reshape(joined_sizes(columns.sizes().slice(1), argument.sizes()));
}

}  // namespace diptych::detail
