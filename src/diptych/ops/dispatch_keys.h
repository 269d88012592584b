// The two dispatch keys that tracing is built on, named in one place, and what runs below them.
#pragma once
#include <c10/core/DispatchKeySet.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

namespace diptych::detail {

/// The key at which operators are recorded, and that stand-ins have: below autograd and functionalization. LibTorch
/// reserves it for libraries outside its tree and registers no kernels for it.
///
/// Note [The recording key]: LibTorch keeps DispatchKey::Fake, which would be the place, for fake tensors of its own:
/// from 2.14 on its Python takes what has that key for one of them, and prints and copies it as such. kFakeKey lies
/// among the backends. That has two consequences. Kernels for all backends (CompositeExplicitAutograd) come before a
/// fallback, so each operator gets a kernel at this key: trace/recording_kernels.h. And the kernels of factories at
/// kSelectKey, which is above it, call the backend of their `device` at once; so a thread that traces excludes that
/// key, and what runs real operators there allows it again: BelowTraceGuard.
inline constexpr c10::DispatchKey kFakeKey = c10::DispatchKey::CustomRNGKeyId;
inline constexpr c10::DispatchKey kSelectKey = c10::DispatchKey::BackendSelect;

/// The key at which real tensors are exchanged for their stand-ins: above autocast and autograd. LibTorch reserves it
/// for libraries outside its tree and registers no kernels for it.
inline constexpr c10::DispatchKey kFrontKey = c10::DispatchKey::DeferredInit;

/// The keys that a thread includes while it traces.
inline constexpr c10::DispatchKeySet kTraceKeys({kFakeKey, kFrontKey, c10::DispatchKey::Functionalize});

/// The keys of autograd's kernels.
inline constexpr c10::DispatchKeySet kAutogradKeys = c10::autograd_dispatch_keyset_with_ADInplaceOrView;

/// Keys that must not act while an operator runs below a trace, such as on meta tensors.
inline constexpr c10::DispatchKeySet kNotOnMeta = kAutogradKeys | kTraceKeys;

/// Is among a thread's excluded keys while an operator runs on meta tensors (OnMeta), and in no tensor's: what begins a
/// trace or a shadow inside a kernel takes it away with the keys that it needs, and puts all back.
inline constexpr c10::DispatchKey kMetaMark = c10::DispatchKey::TESTING_ONLY_GenericMode;

/// Dispatch keys of tensors that wrap others, or whose operators other code intercepts. A plain tensor has none of
/// them.
inline constexpr c10::DispatchKeySet kTransformedKeys({
    c10::DispatchKey::FuncTorchGradWrapper,
    c10::DispatchKey::FuncTorchBatched,
    c10::DispatchKey::BatchedNestedTensor,
    c10::DispatchKey::Batched,
    c10::DispatchKey::Python,
    c10::DispatchKey::Functionalize,
    c10::DispatchKey::Fake,
    kFakeKey,
});

/// While it lives, operators of this thread pass by `keys`, and reach the backends as where no trace is.
class BelowTraceGuard {
 public:
  explicit BelowTraceGuard(c10::DispatchKeySet keys = kNotOnMeta) : guard_(below(keys)) {}

 private:
  static c10::impl::LocalDispatchKeySet below(c10::DispatchKeySet keys) {
    auto local = c10::impl::tls_local_dispatch_key_set();
    local.excluded_ = (local.excluded_ | keys) - c10::DispatchKeySet(kSelectKey);
    return local;
  }

  c10::impl::ForceDispatchKeyGuard guard_;
};

}  // namespace diptych::detail
