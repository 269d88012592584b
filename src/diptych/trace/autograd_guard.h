// Autograd inside a kernel that runs below autograd.
#pragma once
#include <ATen/core/grad_mode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include "diptych/ops/dispatch_keys.h"

namespace diptych::detail {

/// Switches autograd and the recording of gradients on for this thread; its end restores both.
class AutogradGuard {
 public:
  AutogradGuard() : keys_(with_autograd()) {}

 private:
  static c10::impl::LocalDispatchKeySet with_autograd() {
    auto local = c10::impl::tls_local_dispatch_key_set();
    local.excluded_ = local.excluded_ - kAutogradKeys;
    return local;
  }

  c10::impl::ForceDispatchKeyGuard keys_;
  at::AutoGradMode grad_mode_{true};
};

}  // namespace diptych::detail
