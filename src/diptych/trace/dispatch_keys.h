// The two dispatch keys that tracing stands on, named in one place.
#pragma once
#include <c10/core/DispatchKeySet.h>

namespace diptych::detail {

/// Below autograd and functionalization, above the backends: here operators are recorded. It has no kernels of its own
/// in LibTorch 2.13; later versions give it a fake mode, and this constant is what must change then.
inline constexpr c10::DispatchKey kFakeKey = c10::DispatchKey::Fake;

/// Above autocast and autograd: here real tensors are exchanged for their stand-ins. LibTorch reserves this key for
/// libraries outside its tree and registers nothing on it.
inline constexpr c10::DispatchKey kFrontKey = c10::DispatchKey::DeferredInit;

/// The keys of autograd's kernels.
inline constexpr c10::DispatchKeySet kAutogradKeys = c10::autograd_dispatch_keyset_with_ADInplaceOrView;

/// Keys that must not act while an operator runs on meta tensors.
inline constexpr c10::DispatchKeySet kNotOnMeta =
    kAutogradKeys | c10::DispatchKeySet({kFakeKey, kFrontKey, c10::DispatchKey::Functionalize});

}  // namespace diptych::detail
