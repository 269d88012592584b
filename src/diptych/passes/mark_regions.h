// Evaluates the policies of checkpoint regions: what each one decides about each node of a traced function.
//
//   graph joint(%0 x : f32[2] grad, %1 out : f32[2] tangent)        with save_nothing() for checkpoint.0
//     %2 : f32[2] grad = aten.tanh(%0)  # region checkpoint.0
//     %3 : f32[2] = aten.tanh_backward(%1, %2)  # grad of %2 · region checkpoint.0
//     return (%2 out, %3 x gradient)
// ==>
//     %2 : f32[2] grad = aten.tanh(%0)  # region checkpoint.0 recompute
#pragma once
#include <vector>

#include "diptych/ops/checkpoint_policy.h"
#include "diptych/passes/partition.h"

namespace diptych::detail {

/// Returns the marks of each node of `joint`, whose nodes know their regions and have no marks. Nodes that autograd
/// recorded get none.
/// Errors: UserError if a policy names a residual that no value carries, or has no rule.
std::vector<RegionMarks> find_region_marks(const Joint& joint, const CheckpointedRegions& regions);

/// Sets the marks of the forward nodes of `graph`. `marks` may be those of another joint graph with the same forward
/// nodes.
void set_region_marks(Graph& graph, const std::vector<RegionMarks>& marks);

}  // namespace diptych::detail
