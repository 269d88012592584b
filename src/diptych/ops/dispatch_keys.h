// The two dispatch keys that tracing is built on, named in one place.
#pragma once
#include <c10/core/DispatchKeySet.h>

namespace diptych::detail {

/// The key at which operators are recorded: below autograd and functionalization, above the backends. LibTorch 2.13
/// registers no kernels for it. Later versions have a fake mode there, and this constant must then change.
inline constexpr c10::DispatchKey kFakeKey = c10::DispatchKey::Fake;

/// The key at which real tensors are exchanged for their stand-ins: above autocast and autograd. LibTorch reserves it
/// for libraries outside its tree and registers no kernels for it.
inline constexpr c10::DispatchKey kFrontKey = c10::DispatchKey::DeferredInit;

/// The keys of autograd's kernels.
inline constexpr c10::DispatchKeySet kAutogradKeys = c10::autograd_dispatch_keyset_with_ADInplaceOrView;

/// Keys that must not act while an operator runs below a trace, such as on meta tensors.
inline constexpr c10::DispatchKeySet kNotOnMeta =
    kAutogradKeys | c10::DispatchKeySet({kFakeKey, kFrontKey, c10::DispatchKey::Functionalize});

/// Is among a thread's excluded keys while an operator runs on meta tensors (OnMeta), and in no tensor's: what begins a
/// trace or a shadow inside a kernel takes it away with the keys that it needs, and puts all back.
inline constexpr c10::DispatchKey kMetaMark = c10::DispatchKey::TESTING_ONLY_GenericMode;

}  // namespace diptych::detail
