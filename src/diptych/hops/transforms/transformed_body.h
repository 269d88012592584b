// Bodies under transforms: what a rule of Note [Transformed hops] puts in the place of a body.
#pragma once
#include <memory>
#include <vector>

#include "diptych/hops/hop.h"

namespace diptych::detail {

/// A body made for operands of which some are batched, or have tangents.
struct TransformedBody {
  std::shared_ptr<const Body> body;
  std::vector<bool> results;  ///< per result of the original, whether it is batched, or has a tangent
};

/// Returns the body that runs `body` for each element of a batch. Inputs and results are the body's; those that are
/// batched have the batch as their first dimension. `inputs`: which inputs are batched. `results`: which results have
/// to be; others are where they differ from element to element.
/// Errors: torch's, for an operator without a rule, or a draw inside of a vmap with randomness="error".
TransformedBody batch_body(const Body& body, const std::vector<bool>& inputs, const std::vector<bool>& results,
                           const Batch& batch);

/// Returns the body of `function`, captured on inputs that look like `metas`. Nothing of it requires grad: a derivative
/// follows from its graph.
std::shared_ptr<const Body> capture_pure(
    const std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>&)>& function,
    const std::vector<TensorMeta>& metas, const std::string& name);
/// Runs a body's operators on tensors of the innermost trace, which levels may wrap.
std::vector<at::Tensor> run_in_trace(const Body& body, std::vector<at::Tensor> inputs);

/// How a body's inputs, or its results, are divided, in order: tangents follow the primals of their group.
using Groups = std::vector<size_t>;

/// Returns the body that also computes tangents. Its inputs are, group by group, the body's and then the tangents of
/// those that have one; its results likewise. `results`: which results have to have a tangent, of zeros where nothing
/// flows.
/// Requires: the thread is inside of a level of forward-mode automatic differentiation.
/// Errors: UserError for a body with a derivative of its own; torch's, for an operator without a forward derivative.
TransformedBody dual_body(const Body& body, const Groups& input_groups, const std::vector<bool>& inputs,
                          const Groups& result_groups, const std::vector<bool>& results);

/// Returns the tensors of duals in the order of dual_body(): group by group, primals, then tangents.
std::vector<at::Tensor> interleave(const std::vector<Dual>& duals, const Groups& groups);
/// The inverse, where `has_tangent` says which have one.
std::vector<Dual> deinterleave(const std::vector<at::Tensor>& tensors, const Groups& groups,
                               const std::vector<bool>& has_tangent);
/// How many tensors each group has with its tangents.
Groups with_tangents(const Groups& groups, const std::vector<bool>& has_tangent);

/// Finds which carries of a loop are batched, or have tangents: those of `inputs`, and those that a step makes so.
/// `transform` makes the body for some inputs; the first `num_carries` inputs and results are carries. Returns the body
/// whose carries come out as they go in; `inputs` are then its inputs.
template <class Transform>
TransformedBody settle_carries(std::vector<bool>& inputs, size_t num_carries, const Transform& transform) {
  while (true) {
    TransformedBody made = transform(inputs);
    bool is_settled = true;
    for (size_t i = 0; i < num_carries; ++i) {
      is_settled = is_settled && (inputs[i] || !made.results[i]);
      inputs[i] = inputs[i] || made.results[i];
    }
    if (is_settled) return made;
  }
}

std::vector<bool> batched_flags(const std::vector<Batched>& operands);
std::vector<bool> tangent_flags(const std::vector<Dual>& operands);
/// Returns what identifies a rule's hop for these operands: see Hop::transformed().
std::vector<int64_t> batch_key(const std::vector<bool>& flags, const Batch& batch);
std::vector<int64_t> tangent_key(const std::vector<bool>& flags);

/// Returns the value as a batch of equal elements, if it is not one.
at::Tensor as_batch(const Batched& operand, const Batch& batch);
/// Calls a hop all of whose operands and results are batches.
std::vector<Batched> call_on_batches(const HopPtr& hop, const std::vector<Batched>& operands, const Batch& batch);

}  // namespace diptych::detail
