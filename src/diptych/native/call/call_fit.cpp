#include "diptych/native/call/call_fit.h"

#include <ATen/ops/empty_strided.h>

#include "diptych/ops/dispatch_keys.h"

namespace diptych::detail {
namespace {

// Tensors that stand for others, or have no memory.
constexpr c10::DispatchKeySet kNotPlain = kTransformedKeys.add(c10::DispatchKey::ZeroTensor);

enum class Fit : uint8_t { kExact, kOtherStrides, kNone };

Fit fit(const CallShapes::Tensor& slot, const at::Tensor& tensor) {
  if (!tensor.defined() || tensor.layout() != at::kStrided || !tensor.device().is_cpu()) return Fit::kNone;
  const auto* impl = tensor.unsafeGetTensorImpl();
  const bool is_alike = tensor.scalar_type() == slot.dtype && impl->sizes() == at::IntArrayRef(slot.sizes) &&
                        !impl->is_conj() && !impl->is_neg() && impl->has_storage() &&
                        !impl->key_set().has_any(kNotPlain);
  if (!is_alike) return Fit::kNone;
  if (slot.is_empty) return Fit::kExact;
  const auto strides = impl->strides();
  for (size_t dim = 0; dim < slot.sizes.size(); ++dim) {
    if (slot.sizes[dim] != 1 && strides[dim] != slot.strides[dim]) return Fit::kOtherStrides;
  }
  return Fit::kExact;
}

}  // namespace

bool make_fit(const std::vector<CallShapes::Tensor>& shapes, std::vector<at::Tensor>& inputs) {
  if (inputs.size() != shapes.size()) return false;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Fit found = fit(shapes[i], inputs[i]);
    if (found == Fit::kExact) continue;
    // Copies are dense: others would have gaps to allocate, or elements that share a place.
    if (found == Fit::kNone || !shapes[i].is_dense) return false;
    at::Tensor copy = at::empty_strided(shapes[i].sizes, shapes[i].strides, inputs[i].options());
    copy.copy_(inputs[i]);
    inputs[i] = std::move(copy);
  }
  return true;
}

}  // namespace diptych::detail
