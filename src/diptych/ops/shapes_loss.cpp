// Shapes of losses and their gradients.
#include <ATen/ExpandUtils.h>
#include <ATen/core/Reduction.h>

#include "diptych/ops/shapes_table.h"

namespace diptych::detail {
namespace {

at::Tensor scalar(at::ScalarType dtype) { return meta_empty({}, dtype); }

at::Tensor binary_cross_entropy(const at::Tensor& self, const at::Tensor&, const OptionalTensor&, int64_t reduction) {
  return reduction == at::Reduction::None ? meta_like(self) : scalar(self.scalar_type());
}

at::Tensor binary_cross_entropy_backward(const at::Tensor&, const at::Tensor& self, const at::Tensor&,
                                         const OptionalTensor&, int64_t) {
  return meta_like(self);
}

// Of the input's dtype, whatever the target's is.
at::Tensor huber_loss(const at::Tensor& self, const at::Tensor& target, int64_t reduction, double) {
  const auto dtype = self.scalar_type();
  return reduction == at::Reduction::None ? meta_pointwise({self, target}, dtype) : scalar(dtype);
}

// The kernels broadcast, also where the gradient is that of the smaller operand; autograd sums it then.
at::Tensor of_both(const at::Tensor& grad, const at::Tensor& self, const at::Tensor& target) {
  const auto sizes = at::infer_size(at::infer_size(self.sizes(), target.sizes()), grad.sizes());
  return meta_empty(sizes, self.scalar_type());
}

at::Tensor mse_loss_backward(const at::Tensor& grad, const at::Tensor& self, const at::Tensor& target, int64_t) {
  return of_both(grad, self, target);
}

at::Tensor huber_loss_backward(const at::Tensor& grad, const at::Tensor& self, const at::Tensor& target, int64_t,
                               double) {
  return of_both(grad, self, target);
}

TwoTensors nll_loss2d_forward(const at::Tensor& self, const at::Tensor&, const OptionalTensor&, int64_t reduction,
                              int64_t) {
  const auto dtype = self.scalar_type();
  if (reduction != at::Reduction::None) return {scalar(dtype), scalar(dtype)};
  return {meta_empty({self.size(0), self.size(2), self.size(3)}, dtype), scalar(dtype)};
}

at::Tensor nll_loss2d_backward(const at::Tensor&, const at::Tensor& self, const at::Tensor&, const OptionalTensor&,
                               int64_t, int64_t, const at::Tensor&) {
  return meta_empty(self.sizes(), self.scalar_type());
}

// Margin losses take one sample (0-d target) or a batch; only a batch without reduction keeps its dimension.
at::Tensor margin_result(const at::Tensor& self, const at::Tensor& target, int64_t reduction) {
  if (reduction == at::Reduction::None && target.dim() > 0) return meta_empty({self.size(0)}, self.scalar_type());
  return scalar(self.scalar_type());
}

at::Tensor multi_margin_loss(const at::Tensor& self, const at::Tensor& target, const at::Scalar&, const at::Scalar&,
                             const OptionalTensor&, int64_t reduction) {
  return margin_result(self, target, reduction);
}

at::Tensor multi_margin_loss_backward(const at::Tensor&, const at::Tensor& self, const at::Tensor&, const at::Scalar&,
                                      const at::Scalar&, const OptionalTensor&, int64_t) {
  return meta_empty(self.sizes(), self.scalar_type());
}

TwoTensors multilabel_margin_loss_forward(const at::Tensor& self, const at::Tensor& target, int64_t reduction) {
  const bool keeps_batch = reduction == at::Reduction::None && target.dim() > 1;
  const at::Tensor loss = keeps_batch ? meta_empty({target.size(0)}, self.scalar_type()) : scalar(self.scalar_type());
  return {loss, meta_empty(target.sizes(), self.scalar_type())};
}

at::Tensor multilabel_margin_loss_backward(const at::Tensor&, const at::Tensor& self, const at::Tensor&, int64_t,
                                           const at::Tensor&) {
  return meta_empty(self.sizes(), self.scalar_type());
}

at::Tensor checked(const at::Tensor& self, const at::Tensor& is_refused, c10::string_view, bool) {
  return meta_pointwise({self, is_refused}, self.scalar_type());
}

}  // namespace

ShapeRows loss_shapes() {
  return {
      typed_row<checked>("diptych::checked"),
      typed_row<binary_cross_entropy>("aten::binary_cross_entropy"),
      typed_row<binary_cross_entropy_backward>("aten::binary_cross_entropy_backward"),
      typed_row<huber_loss>("aten::huber_loss"),
      typed_row<huber_loss_backward>("aten::huber_loss_backward"),
      typed_row<huber_loss_backward>("aten::smooth_l1_loss_backward"),
      typed_row<mse_loss_backward>("aten::mse_loss_backward"),
      typed_row<nll_loss2d_forward>("aten::nll_loss2d_forward"),
      typed_row<nll_loss2d_backward>("aten::nll_loss2d_backward"),
      typed_row<multi_margin_loss>("aten::multi_margin_loss"),
      typed_row<multi_margin_loss_backward>("aten::multi_margin_loss_backward"),
      typed_row<multilabel_margin_loss_forward>("aten::multilabel_margin_loss_forward"),
      typed_row<multilabel_margin_loss_backward>("aten::multilabel_margin_loss_backward"),
  };
}

}  // namespace diptych::detail
