// Shapes of pooling operators and their gradients, as far as they have no C++ Meta kernel.
#include <ATen/native/Pool.h>

#include "diptych/ops/shapes_table.h"

namespace diptych::detail {
namespace {

using at::native::pooling_output_shape;

// All dimensions before the last `spatial` ones, then the new spatial sizes.
std::vector<int64_t> with_spatial(const at::Tensor& self, at::IntArrayRef spatial) {
  auto sizes = self.sizes().vec();
  std::copy(spatial.begin(), spatial.end(), sizes.end() - static_cast<int64_t>(spatial.size()));
  return sizes;
}

at::Tensor adaptive_avg_pool(const at::Tensor& self, at::IntArrayRef output_size) {
  return meta_empty(with_spatial(self, output_size), self.scalar_type(), self.suggest_memory_format());
}

at::Tensor adaptive_avg_pool3d(const at::Tensor& self, at::IntArrayRef output_size) {
  return meta_empty(with_spatial(self, output_size), self.scalar_type());
}

at::Tensor adaptive_avg_pool2d_backward(const at::Tensor&, const at::Tensor& self) {
  return meta_like(self, self.suggest_memory_format());
}

at::Tensor adaptive_avg_pool3d_backward(const at::Tensor&, const at::Tensor& self) {
  return meta_empty(self.sizes(), self.scalar_type());
}

int64_t setting(at::IntArrayRef values, size_t dim) { return values.size() == 1 ? values[0] : values[dim]; }

TwoTensors max_pool3d(const at::Tensor& self, at::IntArrayRef kernel, at::IntArrayRef stride, at::IntArrayRef padding,
                      at::IntArrayRef dilation, bool ceil_mode) {
  std::vector<int64_t> spatial;
  for (size_t i = 0; i < 3; ++i) {
    const int64_t step = stride.empty() ? setting(kernel, i) : setting(stride, i);
    const int64_t input = self.size(self.dim() - 3 + static_cast<int64_t>(i));
    spatial.push_back(pooling_output_shape<int64_t>(input, setting(kernel, i), setting(padding, i), step,
                                                    setting(dilation, i), ceil_mode));
  }
  const auto sizes = with_spatial(self, spatial);
  const auto format = self.suggest_memory_format();
  return {meta_empty(sizes, self.scalar_type(), format), meta_empty(sizes, at::kLong, format)};
}

at::Tensor max_pool3d_backward(const at::Tensor&, const at::Tensor& self, at::IntArrayRef, at::IntArrayRef,
                               at::IntArrayRef, at::IntArrayRef, bool, const at::Tensor&) {
  return meta_like(self, self.suggest_memory_format());
}

at::Tensor max_unpool2d(const at::Tensor& self, const at::Tensor&, at::IntArrayRef output_size) {
  return meta_empty(with_spatial(self, output_size), self.scalar_type(), self.suggest_memory_format());
}

at::Tensor max_unpool3d(const at::Tensor& self, const at::Tensor&, at::IntArrayRef output_size, at::IntArrayRef,
                        at::IntArrayRef) {
  return meta_empty(with_spatial(self, output_size), self.scalar_type());
}

}  // namespace

ShapeRows pool_shapes() {
  return {
      typed_row<adaptive_avg_pool>("aten::_adaptive_avg_pool2d"),
      typed_row<adaptive_avg_pool2d_backward>("aten::_adaptive_avg_pool2d_backward"),
      typed_row<adaptive_avg_pool3d>("aten::_adaptive_avg_pool3d"),
      typed_row<adaptive_avg_pool3d_backward>("aten::_adaptive_avg_pool3d_backward"),
      typed_row<max_pool3d>("aten::max_pool3d_with_indices"),
      typed_row<max_pool3d_backward>("aten::max_pool3d_with_indices_backward"),
      typed_row<max_unpool2d>("aten::max_unpool2d"),
      typed_row<max_unpool3d>("aten::max_unpool3d"),
  };
}

}  // namespace diptych::detail
