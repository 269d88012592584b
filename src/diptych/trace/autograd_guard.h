// Autograd inside a kernel that runs below autograd.
#pragma once
#include <ATen/core/grad_mode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include "diptych/ops/dispatch_keys.h"

namespace diptych::detail {

/// Switches autograd and the recording of gradients on for this thread; its end restores both.
class AutogradGuard {
 public:
  AutogradGuard() : saved_(c10::impl::tls_local_dispatch_key_set()) {
    auto keys = saved_;
    keys.excluded_ = keys.excluded_ - kAutogradKeys;
    c10::impl::_force_tls_local_dispatch_key_set(keys);
  }
  ~AutogradGuard() { c10::impl::_force_tls_local_dispatch_key_set(saved_); }
  AutogradGuard(const AutogradGuard&) = delete;
  AutogradGuard& operator=(const AutogradGuard&) = delete;

 private:
  c10::impl::LocalDispatchKeySet saved_;
  at::AutoGradMode grad_mode_{true};
};

}  // namespace diptych::detail
