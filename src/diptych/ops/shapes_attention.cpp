// Shapes of the attention kernels that the CPU has.
#include <ATen/OpMathType.h>
#include <ATen/ops/transpose.h>

#include "diptych/ops/shapes_table.h"

namespace diptych::detail {
namespace {

// The kernel works on [batch, length, heads, ...] and hands out views with heads before length.
at::Tensor heads_before_length(at::IntArrayRef sizes, at::ScalarType dtype) {
  return meta_empty(sizes, dtype).transpose(1, 2);
}

TwoTensors flash_attention(const at::Tensor& query, const at::Tensor&, const at::Tensor& value, double, bool,
                           const OptionalTensor&, std::optional<double>) {
  const int64_t batch = query.size(0), heads = query.size(1), length = query.size(2);
  const auto dtype = query.scalar_type();
  return {heads_before_length({batch, length, heads, value.size(3)}, dtype),
          heads_before_length({batch, length, heads}, at::toOpMathType(dtype))};
}

// Gradients keep the layout that the kernel computes in, whatever the layout of the inputs.
at::Tensor attention_grad(const at::Tensor& input) {
  return heads_before_length({input.size(0), input.size(2), input.size(1), input.size(3)}, input.scalar_type());
}

ThreeTensors flash_attention_backward(const at::Tensor&, const at::Tensor& query, const at::Tensor& key,
                                      const at::Tensor& value, const at::Tensor&, const at::Tensor&, double, bool,
                                      const OptionalTensor&, std::optional<double>) {
  return {attention_grad(query), attention_grad(key), attention_grad(value)};
}

at::Tensor masked_softmax(const at::Tensor& self, const at::Tensor&, std::optional<int64_t>, std::optional<int64_t>) {
  return meta_empty(self.sizes(), self.scalar_type());
}

at::Tensor masked_softmax_backward(const at::Tensor& grad, const at::Tensor&, const at::Tensor&,
                                   std::optional<int64_t>) {
  return meta_empty(grad.sizes(), grad.scalar_type());
}

}  // namespace

ShapeRows attention_shapes() {
  return {
      typed_row<flash_attention>("aten::_scaled_dot_product_flash_attention_for_cpu"),
      typed_row<flash_attention_backward>("aten::_scaled_dot_product_flash_attention_for_cpu_backward"),
      typed_row<masked_softmax>("aten::_masked_softmax"),
      typed_row<masked_softmax_backward>("aten::_masked_softmax_backward"),
  };
}

}  // namespace diptych::detail
