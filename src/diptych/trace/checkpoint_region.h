// Marking a stretch of a traced function as a checkpoint region, and naming values for policies to save.
#pragma once
#include <ATen/core/Tensor.h>

#include <string_view>

#include "diptych/ops/checkpoint_policy.h"

namespace diptych {

namespace detail {
class Recorder;
}

/// While it lives, nodes that are traced on this thread belong to a checkpoint region, which is inside the regions that
/// are open already. Every partitioner then saves or recomputes values of the region that the backward needs as
/// `policy` says. See Note [Checkpoint regions]. Outside a trace it does nothing.
///   { const dp::CheckpointRegion region(dp::save_matrix_products()); x = block(x); }
/// Requires: it is destroyed before the trace ends, in reverse order of construction, as local variables are; an
/// exception may end it.
/// Errors: UserError if regions nest deeper than RegionMarks::kMaxDepth, and at the end of the capture for whatever the
/// policy refuses.
/// Threads: used by the thread that traces.
/// Source: Chen et al., arXiv:1604.06174; torch.utils.checkpoint with its selective policies.
class CheckpointRegion {
 public:
  explicit CheckpointRegion(CheckpointPolicy policy = save_nothing());
  ~CheckpointRegion();
  CheckpointRegion(const CheckpointRegion&) = delete;
  CheckpointRegion& operator=(const CheckpointRegion&) = delete;

 private:
  detail::Recorder* recorder_;
};

/// Names the value that `tensor` stands for in the trace, so that save_names({name}) saves it; returns `tensor`. A name
/// for a view also names the tensor that it is a view of. A value may have several names, and several values may have
/// one name. Outside a trace it only returns `tensor`.
/// Errors: UserError if `name` is empty or has a comma.
/// Source: jax.ad_checkpoint.checkpoint_name.
at::Tensor name_residual(const at::Tensor& tensor, std::string_view name);

}  // namespace diptych
