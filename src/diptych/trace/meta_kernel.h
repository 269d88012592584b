// Calls on meta tensors by LibTorch's own kernels: see Note [Kernels for shapes].
#pragma once
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include "diptych/ops/dispatch_keys.h"
#include "diptych/trace/operator_plan.h"

namespace diptych::detail {

/// While it lives, operators of this thread run on meta tensors, and those that a Meta kernel calls in turn reach
/// kernels in C++ as well: they pass kFakeKey, whose kernel hands them to run_inner_meta_kernel().
class OnMeta {
 public:
  OnMeta() : others_((kNotOnMeta - c10::DispatchKeySet(kFakeKey)) | c10::DispatchKeySet(kMetaMark)) {}
  static bool is_on() { return c10::impl::tls_is_dispatch_key_excluded(kMetaMark); }

 private:
  c10::impl::ExcludeDispatchKeyGuard others_;
};

/// Runs an operator that was called while OnMeta lives: by `plan`'s kernel if it is one on meta tensors, and as ever
/// by what lies below kFakeKey in `keys` if not.
void run_inner_meta_kernel(const c10::OperatorHandle& op, const OperatorPlan& plan, c10::DispatchKeySet keys,
                           torch::jit::Stack* stack);

/// What became of a call on meta tensors.
enum class MetaRun : uint8_t {
  kDone,
  kNoKernel,     ///< it reached an operator without a Meta kernel
  kNeedsValues,  ///< it reached one of Python without a fake kernel, or whose fake kernel makes sizes of values up
};

/// Runs the Meta kernel of `op`, or `kernel` if that is not null, on the arguments at the top of `stack`, which stay in
/// place unless it is done.
MetaRun run_meta_kernel(const c10::OperatorHandle& op, const c10::KernelFunction* kernel, torch::jit::Stack* stack);

}  // namespace diptych::detail
