#include "diptych/backward/run_limits.h"

#include <c10/core/DispatchKeySet.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <torch/csrc/autograd/forward_grad.h>

#include <array>

namespace diptych::detail {
namespace {

using c10::DispatchKey;
using c10::DispatchKeySet;

/// Dispatch keys of a thread or of a tensor, and what they say.
struct KeyReason {
  DispatchKeySet keys;
  const char* reason;
};

constexpr const char* kBatched = "batched gradients";
constexpr const char* kTransform = "a transform of functions";
constexpr const char* kSubclass = "a tensor subclass";
constexpr const char* kNested = "a nested tensor";
constexpr const char* kSparse = "a tensor that is not strided";

constexpr std::array<KeyReason, 2> kThreadReasons{{
    {DispatchKeySet({DispatchKey::VmapMode, DispatchKey::FuncTorchVmapMode}), kBatched},
    {DispatchKeySet({DispatchKey::FuncTorchDynamicLayerFrontMode, DispatchKey::Functionalize}), kTransform},
}};

// Some kernels ask whether a tensor is lazily conjugated, and stand-ins do not say that they are.
constexpr std::array<KeyReason, 7> kTensorReasons{{
    {DispatchKeySet({DispatchKey::FuncTorchBatched, DispatchKey::BatchedNestedTensor, DispatchKey::Batched}), kBatched},
    {DispatchKeySet({DispatchKey::FuncTorchGradWrapper, DispatchKey::Functionalize}), kTransform},
    {DispatchKeySet(DispatchKey::Python), kSubclass},
    {DispatchKeySet(DispatchKey::NestedTensor), kNested},
    {DispatchKeySet({DispatchKey::Sparse, DispatchKey::SparseCsr}), kSparse},
    {DispatchKeySet(DispatchKey::Quantized), "a quantized tensor"},
    {DispatchKeySet({DispatchKey::Conjugate, DispatchKey::Negative, DispatchKey::ZeroTensor}),
     "a tensor whose values are computed lazily (conj(), imag)"},
}};

template <size_t N>
constexpr DispatchKeySet all_keys(const std::array<KeyReason, N>& reasons) {
  DispatchKeySet keys;
  for (const KeyReason& row : reasons) keys = keys | row.keys;
  return keys;
}

template <size_t N>
const char* reason_of(DispatchKeySet keys, const std::array<KeyReason, N>& reasons) {
  for (const KeyReason& row : reasons) {
    if (keys.has_any(row.keys)) return row.reason;
  }
  return nullptr;
}

}  // namespace

const char* why_thread_is_not_plain() {
  constexpr DispatchKeySet kAny = all_keys(kThreadReasons);
  const DispatchKeySet included = c10::impl::tls_local_dispatch_key_set().included_;
  if (included.has_any(kAny)) return reason_of(included, kThreadReasons);
  if (c10::impl::TorchDispatchModeTLS::any_modes_set()) return "a dispatch mode";
  if (torch::autograd::ForwardADLevel::try_get_by_idx(0) != nullptr) return "forward-mode differentiation";
  return nullptr;
}

const char* why_not_plain(const at::Tensor& tensor) {
  constexpr DispatchKeySet kAny = all_keys(kTensorReasons);
  const DispatchKeySet keys = tensor.unsafeGetTensorImpl()->key_set();
  if (keys.has_any(kAny)) return reason_of(keys, kTensorReasons);
  return tensor.layout() == at::kStrided ? nullptr : kSparse;
}

const char* why_not_plain(const torch::autograd::InputMetadata& expected) {
  if (expected.was_default_constructed()) return "a gradient whose metadata is unknown";
  if (expected.is_nested_tensor()) return kNested;
  if (expected.is_tensor_subclass()) return kSubclass;
  return expected.layout() == at::kStrided ? nullptr : kSparse;
}

}  // namespace diptych::detail
