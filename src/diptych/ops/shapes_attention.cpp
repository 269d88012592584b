// Shapes of the attention kernels that the CPU has.
#include <ATen/OpMathType.h>

#include "diptych/ops/shapes_table.h"

namespace diptych::detail {
namespace {

// The output has the layout of the query. The other results are views, with heads before length, of the tensors that
// the kernel computes.
TwoTensors flash_attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, double, bool,
                           const OptionalTensor&, std::optional<double>) {
  TORCH_CHECK(query.dim() == 4 && key.dim() == 4 && value.dim() == 4,
              "scaled_dot_product_attention: query, key and value must be 4-d, but have ", query.dim(), ", ", key.dim(),
              " and ", value.dim(), " dimensions");
  TORCH_CHECK(query.size(3) == key.size(3) && query.size(3) == value.size(3),
              "scaled_dot_product_attention: Q/K/V should have the same head size, but have ", query.size(3), ", ",
              key.size(3), " and ", value.size(3));
  const int64_t batch = query.size(0), heads = query.size(1), length = query.size(2);
  return {meta_like(query),
          meta_strided({batch, heads, length}, {length * heads, 1, heads}, at::toOpMathType(query.scalar_type()))};
}

// Gradients come as views of contiguous [batch, length, heads, size], whatever the layout of the inputs.
at::Tensor attention_grad(const at::Tensor& input) {
  const int64_t heads = input.size(1), length = input.size(2), size = input.size(3);
  return meta_strided(input.sizes(), {length * heads * size, size, heads * size, 1}, input.scalar_type());
}

// Of no gradient the kernel makes none, and so it does under a capture of a whole backward.
ThreeTensors flash_attention_backward(const at::Tensor& grad, const at::Tensor& query, const at::Tensor& key,
                                      const at::Tensor& value, const at::Tensor&, const at::Tensor&, double, bool,
                                      const OptionalTensor&, std::optional<double>) {
  if (!grad.defined()) return {};
  return {attention_grad(query), attention_grad(key), attention_grad(value)};
}

at::Tensor masked_softmax(const at::Tensor& self, const at::Tensor&, std::optional<int64_t>, std::optional<int64_t>) {
  return meta_empty(self.sizes(), self.scalar_type());
}

at::Tensor masked_softmax_backward(const at::Tensor& grad, const at::Tensor&, const at::Tensor&,
                                   std::optional<int64_t>) {
  return meta_empty(grad.sizes(), grad.scalar_type());
}

// The softmax of attention that is composed of other operators, as on CUDA: rows of -inf give zeros.
at::Tensor safe_softmax(const at::Tensor& self, int64_t dim, std::optional<at::ScalarType> dtype) {
  const at::ScalarType result = dtype.value_or(self.scalar_type());
  at::maybe_wrap_dim(dim, self.dim());
  TORCH_CHECK_NOT_IMPLEMENTED(at::isFloatingType(result), "\"softmax\" not implemented for '", result, "'");
  return meta_empty(self.sizes(), result);
}

// The fast path of modules. Without weights the kernel returns an undefined tensor, where the Meta kernel makes an
// empty one.
TwoTensors multi_head_attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor&, int64_t embed_dim,
                                int64_t num_heads, const at::Tensor&, const at::Tensor&, const at::Tensor& projection,
                                const at::Tensor&, const OptionalTensor&, bool need_weights, bool average_weights,
                                std::optional<int64_t>) {
  TORCH_CHECK(query.dim() == 3, "expected 3-D `query`, got ", query.dim(), "-D tensor");
  TORCH_CHECK(query.size(2) == embed_dim, "passed-in embed_dim ", embed_dim, " didn't match last dim of query ",
              query.size(2));
  const int64_t batch = query.size(0), length = query.size(1);
  if (query.numel() == 0) return {meta_like(query), at::Tensor()};
  const at::Tensor result = meta_empty({batch, length, projection.size(0)}, query.scalar_type());
  if (!need_weights) return {result, at::Tensor()};
  const int64_t others = key.size(1);
  return {result, average_weights ? meta_empty({batch, length, others}, query.scalar_type())
                                  : meta_empty({batch, num_heads, length, others}, query.scalar_type())};
}

}  // namespace

ShapeRows attention_shapes() {
  return {
      typed_row<multi_head_attention>("aten::_native_multi_head_attention"),
      typed_row<flash_attention>("aten::_scaled_dot_product_flash_attention_for_cpu"),
      typed_row<flash_attention_backward>("aten::_scaled_dot_product_flash_attention_for_cpu_backward"),
      typed_row<safe_softmax>("aten::_safe_softmax"),
      typed_row<masked_softmax>("aten::_masked_softmax"),
      typed_row<masked_softmax_backward>("aten::_masked_softmax_backward"),
  };
}

}  // namespace diptych::detail
