// Rules of Note [Transformed hops] for hop.cond and hop.invoke.
//
// Note [Branches that differ within a batch]: where the predicate differs from element to element, both bodies run on
// the whole batch, and each element takes the results of its own. A body must not see what it was not chosen for: the
// square root of a negative number is NaN, and so is its gradient times zero. The elements that do not take a body are
// given the operands of one that does, without their history; if none takes it, it does not run.
#include <ATen/ops/logical_not.h>
#include <ATen/ops/where.h>

#include "diptych/hops/call.h"
#include "diptych/hops/cond/cond_operator.h"
#include "diptych/hops/strides.h"
#include "diptych/hops/transforms/select_elements.h"
#include "diptych/hops/transforms/transformed_body.h"

namespace diptych::detail {
namespace {

using Tensors = std::vector<at::Tensor>;
using Bodies = std::vector<std::shared_ptr<const Body>>;

template <class Flags>
std::vector<bool> inputs_of(const Hop& hop, const BranchLayout& layout, size_t body, const Flags& operands) {
  std::vector<bool> inputs;
  for (size_t i = 0; i < hop.body(body).num_inputs(); ++i) inputs.push_back(operands[layout.operand(body, i)]);
  return inputs;
}

// Transforms all bodies so that they agree on which results are batched, or have tangents. `transform` takes a body's
// number and the results that have to be.
template <class Transform>
Bodies transform_alike(const Hop& hop, std::vector<bool>& results, const Transform& transform) {
  while (true) {
    const std::vector<bool> wanted = results;
    Bodies bodies;
    bool is_settled = true;
    for (size_t i = 0; i < hop.bodies().size(); ++i) {
      const TransformedBody made = transform(i, wanted);
      bodies.push_back(made.body);
      is_settled = is_settled && made.results == wanted;
      for (size_t k = 0; k < results.size(); ++k) results[k] = results[k] || made.results[k];
    }
    if (is_settled) return bodies;
  }
}

std::vector<Batched> call_uniform(const HopPtr& hop, const std::vector<Batched>& operands, const Batch& batch) {
  const BranchLayout layout(*hop);
  const auto flags = batched_flags(operands);
  const auto transformed = hop->transformed(batch_key(flags, batch), [&] {
    std::vector<bool> results(layout.num_results);
    Bodies bodies = transform_alike(*hop, results, [&](size_t body, const std::vector<bool>& wanted) {
      return batch_body(hop->body(body), inputs_of(*hop, layout, body, flags), wanted, batch);
    });
    return Hop::Transformed{with_bodies(*hop, std::move(bodies), hop->groups()), results};
  });
  Tensors given;
  for (const Batched& operand : operands) given.push_back(operand.value);
  const Tensors tensors = call(transformed->hop, std::move(given));
  std::vector<Batched> results;
  for (size_t i = 0; i < tensors.size(); ++i) results.push_back({tensors[i], transformed->results[i]});
  return results;
}

// Returns a cond on whether any element takes the body: the body for the whole batch, or zeros.
HopPtr make_gated(const std::shared_ptr<const Body>& batched) {
  std::vector<TensorMeta> inputs;
  for (size_t i = 0; i < batched->num_inputs(); ++i) inputs.push_back(batched->input(i));
  const auto zeros = capture_pure(
      [&](const Tensors&) {
        Tensors found;
        for (size_t i = 0; i < batched->num_results(); ++i) found.push_back(zeros_like_meta(batched->result(i)));
        return found;
      },
      inputs, "nobody");
  return make_hop(BranchOperator::cond(), {batched, zeros}, {1, batched->num_inputs(), 0, 0});
}

// Returns the results of one body as batches; those of elements that are not `chosen` have no meaning.
Tensors call_for_some(const HopPtr& hop, size_t body, const at::Tensor& chosen, const std::vector<Batched>& operands,
                      const Batch& batch) {
  const BranchLayout layout(*hop);
  const auto inputs = inputs_of(*hop, layout, body, batched_flags(operands));
  auto key = batch_key(inputs, batch);
  key.push_back(static_cast<int64_t>(body));
  const auto gated = hop->transformed(key, [&] {
    const std::vector<bool> all(layout.num_results, true);
    return Hop::Transformed{make_gated(batch_body(hop->body(body), inputs, all, batch).body)};
  });
  const SelectElements select(chosen);
  Tensors given{chosen.any()};
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Batched& operand = operands[layout.operand(body, i)];
    given.push_back(operand.is_batched ? select.or_another(operand.value) : operand.value);
  }
  return call(gated->hop, std::move(given));
}

}  // namespace

std::vector<Batched> BranchOperator::call_batched(const HopPtr& hop, std::vector<Batched>&& operands,
                                                  const Batch& batch) const {
  if (hop->bodies().size() == 1 || !operands[0].is_batched) return call_uniform(hop, operands, batch);
  const at::Tensor truth = operands[0].value.reshape({batch.size});
  const Tensors yes = call_for_some(hop, 0, truth, operands, batch);
  const Tensors no = call_for_some(hop, 1, truth.logical_not(), operands, batch);
  const SelectElements select(truth);
  std::vector<Batched> results;
  for (size_t i = 0; i < yes.size(); ++i) results.push_back({select.choose(yes[i], no[i]), true});
  return results;
}

std::vector<Dual> BranchOperator::call_dual(const HopPtr& hop, std::vector<Dual>&& operands) const {
  const BranchLayout layout(*hop);
  const auto flags = tangent_flags(operands);
  const auto transformed = hop->transformed(tangent_key(flags), [&] {
    std::vector<bool> results(layout.num_results);
    Bodies bodies = transform_alike(*hop, results, [&](size_t body, const std::vector<bool>& wanted) {
      return dual_body(hop->body(body), {layout.num_arguments, layout.num_free[body]},
                       inputs_of(*hop, layout, body, flags), {layout.num_results}, wanted);
    });
    return Hop::Transformed{with_bodies(*hop, std::move(bodies), with_tangents(hop->groups(), flags)), results};
  });
  const Tensors tensors = call(transformed->hop, interleave(operands, hop->groups()));
  return deinterleave(tensors, {layout.num_results}, transformed->results);
}

}  // namespace diptych::detail
