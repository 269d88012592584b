#include "diptych/xla/slot_tensor.h"

namespace diptych::detail {
namespace {

// Whether a tensor lies as the graph says, without gaps.
bool lies_as(const at::Tensor& tensor, const HloSlot& slot) {
  if (tensor.is_conj() || tensor.is_neg() || tensor.sizes() != slot.sizes) return false;
  if (!is_dense(slot.sizes, slot.strides)) return false;
  const at::IntArrayRef strides = tensor.strides();
  for (size_t i = 0; i < slot.sizes.size(); ++i) {
    if (slot.sizes[i] != 1 && strides[i] != slot.strides[i]) return false;
  }
  return true;
}

}  // namespace

at::Tensor as_passed(const at::Tensor& tensor, const HloSlot& slot) {
  if (!lies_as(tensor, slot)) {
    const at::Tensor dense = tensor.permute(slot.order).resolve_conj().resolve_neg().contiguous();
    return slot.passed.size() > slot.sizes.size() ? dense.unsqueeze(0) : dense;
  }
  if (tensor.sizes() == slot.passed && tensor.is_contiguous()) return tensor;
  auto alias = tensor.unsafeGetTensorImpl()->shallow_copy_and_detach(c10::VariableVersion(/*version=*/0),
                                                                     /*allow_tensor_metadata_change=*/true);
  alias->set_sizes_contiguous(slot.passed);
  return at::Tensor(std::move(alias));
}

}  // namespace diptych::detail
