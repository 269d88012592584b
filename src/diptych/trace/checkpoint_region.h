// Marking a stretch of a traced function as a checkpoint region, and naming values for policies to save.
#pragma once
#include <ATen/core/Tensor.h>

#include <string_view>

#include "diptych/ops/checkpoint_policy.h"

namespace diptych {

namespace detail {
class Recorder;
}

/// While it lives, what is traced on this thread belongs to a checkpoint region, inside the regions that live already:
/// what the backward needs of the region's values is saved or computed again as `policy` says, by every partitioner.
/// See Note [Checkpoint regions]. Outside a trace it does nothing.
///   { const dp::CheckpointRegion region(dp::save_matrix_products()); x = block(x); }
/// Requires: it goes before the trace ends, in reverse order of making, as locals do; an exception may end it.
/// Errors: UserError if regions nest deeper than RegionMarks::kMaxDepth; at the end of the capture, what the policy
/// refuses.
/// Threads: of the thread that traces.
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

/// Names the value that `tensor` stands for in the trace, so that save_names({name}) saves it; returns `tensor`. A view
/// names the tensor that it is a view of, too; a value may have several names, and a name several values. Outside a
/// trace it does nothing else.
/// Errors: UserError if `name` is empty or has a comma.
/// Source: jax.ad_checkpoint.checkpoint_name.
at::Tensor name_residual(const at::Tensor& tensor, std::string_view name);

}  // namespace diptych
