// dp::checkpoint: a function whose values are computed again in the backward instead of being kept.
#pragma once
#include "diptych/hops/custom_vjp/custom_vjp.h"
#include "diptych/trace/checkpoint_region.h"
#include "diptych/trace/recorder.h"

namespace diptych {
namespace detail {

/// Calls a checkpointed function outside a capture.
std::vector<at::Tensor> checkpoint_flat(const FlatFunction& function, const Flattened& arguments,
                                        const CheckpointPolicy& policy);

}  // namespace detail

/// A function with a checkpoint policy. See checkpoint().
template <class F>
class Checkpointed {
 public:
  Checkpointed(F function, CheckpointPolicy policy) : function_(std::move(function)), policy_(std::move(policy)) {}

  template <class... A>
  auto operator()(const A&... arguments) const {
    using Result = std::decay_t<decltype(function_(arguments...))>;
    if (detail::is_tracing()) {
      const CheckpointRegion region(policy_);
      return Result(function_(arguments...));
    }
    const Flattened flat = detail::flatten_all(arguments...);
    if (!c10::GradMode::is_enabled()) return Result(function_(arguments...));
    std::shared_ptr<Result> example;
    auto tensors = detail::checkpoint_flat(detail::make_flat<Result>(function_, example, arguments...), flat, policy_);
    return detail::make_result(*example, std::move(tensors));
  }

 private:
  F function_;
  CheckpointPolicy policy_;
};

/// Returns a function that returns what `function` returns and keeps for the backward what `policy` says, by default
/// its inputs alone; the rest is recomputed when the backward needs it. Inside a capture it marks the nodes, and every
/// partitioner obeys. Outside a capture it captures the function, runs the forward, and keeps no more than it must
/// (non-reentrant checkpointing: hooks, grad() and nesting work). Recomputed values are bit-identical to the first
/// ones: random numbers are drawn once and kept, autocast is part of the capture, and arguments and captured buffers,
/// such as BatchNorm's, are changed once.
/// Errors: UserError for what policies refuse; what the function throws.
/// Source: Chen et al., arXiv:1604.06174; torch.utils.checkpoint; jax.checkpoint.
template <class F>
Checkpointed<std::decay_t<F>> checkpoint(F&& function, CheckpointPolicy policy = save_nothing()) {
  return {std::forward<F>(function), std::move(policy)};
}

}  // namespace diptych
