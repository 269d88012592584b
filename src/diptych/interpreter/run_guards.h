// The thread's dispatch state while a graph runs.
#pragma once
#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/DispatchKeySet.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

namespace diptych::detail {

/// Runs kernels only: autograd has been captured, and autocast's casts are nodes of the graph.
struct RunBelowAutograd {
  at::AutoDispatchBelowADInplaceOrView below;
  c10::impl::ExcludeDispatchKeyGuard no_autocast{c10::autocast_dispatch_keyset};
};

}  // namespace diptych::detail
