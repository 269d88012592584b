// A view by strides, which autograd takes again once the base has been written to.
#pragma once
#include <ATen/ops/as_strided.h>
#include <torch/csrc/autograd/variable.h>

#include "diptych/trace/fake_tensor.h"

namespace diptych::detail {

/// Returns `storage` as a tensor with the sizes, strides and offset of `place`.
inline at::Tensor place_of(const at::Tensor& place, const at::Tensor& storage) {
  return at::as_strided(storage, place.sizes(), place.strides(), place.storage_offset());
}

/// The function by which autograd takes a view again. Autograd needs none for plain memory, but for other tensors, such
/// as stand-ins.
struct StridedView final : torch::autograd::ViewFunc {
  explicit StridedView(at::Tensor where) : place(std::move(where)) {}
  at::Tensor operator()(const at::Tensor& base) const override { return place_of(place, base); }
  std::unique_ptr<ViewFunc> clone_and_set(std::optional<std::vector<c10::SymInt>>,
                                          std::optional<std::vector<at::Tensor>>) const override {
    return std::make_unique<StridedView>(place);
  }
  at::Tensor place;  ///< on meta
};

/// Returns autograd's metadata for `view`, which shows `base` with the sizes, strides and offset of `place`.
inline std::unique_ptr<torch::autograd::DifferentiableViewMeta> strided_view_meta(
    const at::Tensor& view, const at::Tensor& base, at::Tensor place, torch::autograd::CreationMeta creation) {
  return std::make_unique<torch::autograd::DifferentiableViewMeta>(
      view.unsafeGetTensorImpl(),
      torch::autograd::ViewInfo(base, std::make_unique<StridedView>(std::move(place)), nullptr), std::nullopt,
      /*shared_view_info=*/true, creation);
}

}  // namespace diptych::detail
