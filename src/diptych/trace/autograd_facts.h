// What autograd knows of a tensor, for checks that run at each call.
#pragma once
#include <torch/csrc/autograd/variable.h>

namespace diptych::detail {

/// Read from autograd's own fields: the functions of at::Tensor for these facts go through several libraries.
struct AutogradFacts {
  explicit AutogradFacts(const c10::TensorImpl& impl) {
    const auto* meta = static_cast<const torch::autograd::AutogradMeta*>(impl.autograd_meta());
    if (meta == nullptr) return;
    requires_grad = meta->is_view_ ? meta->requires_grad() : meta->requires_grad_ || meta->grad_fn_;
    is_leaf = !requires_grad || !meta->grad_fn_;
  }
  bool requires_grad = false;
  bool is_leaf = true;
};

/// Returns the tensor that autograd sees `tensor` as a view of, or `tensor` itself.
inline const at::Tensor& autograd_base(const at::Tensor& tensor) {
  return tensor.is_view() ? torch::autograd::impl::get_view_autograd_meta(tensor)->get_backward_view().base_ : tensor;
}

}  // namespace diptych::detail
