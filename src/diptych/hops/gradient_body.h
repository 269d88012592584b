// The body of a loop's backward, from the backward half of the loop's body.
#pragma once
#include <memory>
#include <vector>

#include "diptych/hops/body.h"
#include "diptych/ops/gradient_source.h"

namespace diptych::detail {

/// One backward step. Inputs: gradients of carries, running sums of the gradients of what every step reads, slices,
/// what every step reads. Outputs: gradients of carries one step earlier, the sums, gradients of the forward's slices.
struct GradientBody {
  std::shared_ptr<const Graph> graph;
  std::vector<size_t> carries;  ///< forward carries that have a gradient here
  std::vector<bool> reached;    ///< per entry of `carries`, whether a step passes it a gradient; zeros if not
  std::vector<size_t> sums;     ///< free operands of the forward whose gradient is summed
  /// Where the backward takes a slice or a free operand from.
  std::vector<GradientSource> slices;
  std::vector<GradientSource> free;
  std::vector<size_t> sliced_gradients;  ///< forward slices whose gradient is stacked
};

/// Returns the halves of a loop's body. `requires_grad`: which inputs require it at first; a carry that requires it
/// from some step on counts as requiring it from the first.
std::shared_ptr<const BodyPair> settled_pair(const Body& body, std::vector<bool> requires_grad, size_t num_carries,
                                             bool create_graph);

/// Builds the backward step for the case that the tangents of the loop's results marked in `given` are given. A carry
/// also has a tangent where a later step passes one on.
GradientBody make_gradient_body(const BodyPair& pair, const Body& body, size_t num_carries, size_t num_slices,
                                const std::vector<bool>& given);

}  // namespace diptych::detail
