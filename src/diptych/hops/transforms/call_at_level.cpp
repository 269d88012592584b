#include "diptych/hops/transforms/call_at_level.h"

#include <ATen/functorch/Interpreter.h>
#include <ATen/ops/_make_dual.h>
#include <ATen/ops/_unpack_dual.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/AutogradState.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>

#include "diptych/base/check.h"
#include "diptych/base/list.h"
#include "diptych/hops/call.h"
#include "diptych/hops/transforms/transformed_body.h"
#include "diptych/trace/trace_guard.h"
#include "diptych/trace/transforms.h"

namespace diptych {

using namespace detail;
namespace {

using Tensors = std::vector<at::Tensor>;
using Kind = at::functorch::TransformType;

Tensors call_in_vmap(const HopPtr& hop, const Tensors& operands, const TransformLevel& level) {
  std::vector<Batched> results;
  {
    const BelowLevel below;
    std::vector<Batched> values;
    bool is_batched = hop->draws();
    for (const at::Tensor& operand : operands) {
      Unwrapped found = unwrap(operand, level);
      if (found.is_wrapped) found.value = found.value.movedim(*found.batch_dim, 0);
      values.push_back({std::move(found.value), found.is_wrapped});
      is_batched = is_batched || found.is_wrapped;
    }
    if (is_batched) {
      results = hop->op().call_batched(hop, std::move(values), level.batch);
    } else {
      Tensors same;
      for (Batched& value : values) same.push_back(std::move(value.value));
      for (at::Tensor& result : call(hop, std::move(same))) results.push_back({std::move(result), false});
    }
  }
  Tensors wrapped;
  for (Batched& result : results) wrapped.push_back(result.is_batched ? wrap(result.value, level) : result.value);
  return wrapped;
}

// Returns a tensor in which each element has a place of its own, in the layout of which a tangent is copied.
at::Tensor with_places(const at::Tensor& tensor) {
  const bool is_known = !transform_of(tensor) && tensor.is_non_overlapping_and_dense();
  return is_known ? tensor : tensor.clone(at::MemoryFormat::Contiguous);
}

// Calls a hop on duals, some of which may have no tangent.
std::vector<Dual> call_with_tangents(const HopPtr& hop, std::vector<Dual>&& duals) {
  const bool any = std::any_of(duals.begin(), duals.end(), [](const Dual& dual) { return dual.tangent.defined(); });
  if (any) {
    auto results = hop->op().call_dual(hop, std::move(duals));
    for (Dual& result : results) {
      if (result.tangent.defined()) result.primal = with_places(result.primal);
    }
    return results;
  }
  Tensors primals;
  for (Dual& dual : duals) primals.push_back(std::move(dual.primal));
  std::vector<Dual> results;
  for (at::Tensor& result : call(hop, std::move(primals))) results.push_back({std::move(result)});
  return results;
}

Dual unpack(const at::Tensor& tensor) {
  auto [primal, tangent] = at::_unpack_dual(tensor, 0);
  return {std::move(primal), std::move(tangent)};
}

at::Tensor pack(const Dual& dual) {
  return dual.tangent.defined() ? at::_make_dual(dual.primal, dual.tangent, 0) : dual.primal;
}

Tensors call_in_jvp(const HopPtr& hop, const Tensors& operands, const TransformLevel& level) {
  std::vector<Dual> duals;
  for (const at::Tensor& operand : operands) {
    if (!unwrap(operand, level).is_wrapped) {
      duals.push_back({operand});
      continue;
    }
    const Dual dual = unpack(operand);
    duals.push_back({unwrap(dual.primal, level).value, unwrap(dual.tangent, level).value});
  }
  {
    const BelowLevel below;
    duals = call_with_tangents(hop, std::move(duals));
  }
  Tensors results;
  for (const Dual& dual : duals) results.push_back(pack({wrap(dual.primal, level), wrap(dual.tangent, level)}));
  return results;
}

// The elements of operands; an empty batch has one, of zeros.
Tensors element(const std::vector<Batched>& operands, int64_t index) {
  Tensors found;
  for (const Batched& operand : operands) {
    const at::Tensor& value = operand.value;
    found.push_back(!operand.is_batched ? value : value.size(0) > 0 ? value.select(0, index) : value.sum(0));
  }
  return found;
}

// Returns J t, where a derivative yields J^T u: the gradient of <J^T u, t> with respect to u.
std::vector<at::Tensor> tangents_by_derivative(const Hop& hop, const Derivative& derivative, const SavedCall& saved,
                                               const Tensors& results, const std::vector<Dual>& operands) {
  Tensors tangents(results.size()), starts;
  for (size_t i = 0; i < results.size(); ++i) {
    const bool is_differentiable = results[i].is_floating_point() || results[i].is_complex();
    if (derivative.requires_grad()[i] && is_differentiable) tangents[i] = at::zeros_like(results[i]);
  }
  const InnerLevel level(Kind::Grad);
  const c10::AutoGradMode record(true);
  for (at::Tensor& tangent : tangents) {
    if (!tangent.defined()) continue;
    tangent = wrap(tangent, level.level()).set_requires_grad(true);
    starts.push_back(tangent);
  }
  Tensors found(results.size()), roots, given;
  if (starts.empty()) return found;
  const Tensors gradients = derivative.backward(saved, tangents);
  for (size_t i = 0; i < hop.num_operands(); ++i) {
    if (!gradients[i].defined() || !operands[i].tangent.defined() || !gradients[i].requires_grad()) continue;
    roots.push_back(gradients[i]);
    given.push_back(operands[i].tangent);
  }
  if (roots.empty()) return found;
  Tensors products = torch::autograd::grad(roots, starts, given, /*retain_graph=*/true, /*create_graph=*/true,
                                           /*allow_unused=*/true);
  size_t next = 0;
  for (size_t i = 0; i < results.size(); ++i) {
    if (tangents[i].defined()) found[i] = unwrap(products[next++], level.level()).value;
  }
  return found;
}

}  // namespace

std::vector<Batched> HigherOrderOperator::call_batched(const HopPtr& hop, std::vector<Batched>&& operands,
                                                       const Batch& batch) const {
  DIPTYCH_CHECK(!hop->draws(),
                "[{}] the body draws random numbers inside of a vmap, which hop.{} has no rule for; draw outside and "
                "pass the numbers in",
                schema_->name(), schema_->name());
  std::vector<Tensors> columns(hop->num_results());
  for (int64_t index = 0; index < std::max<int64_t>(batch.size, 1); ++index) {
    const Tensors results = call(hop, element(operands, index));
    for (size_t i = 0; i < results.size(); ++i) columns[i].push_back(results[i]);
  }
  std::vector<Batched> stacks;
  for (const Tensors& column : columns) stacks.push_back({at::stack(column).slice(0, 0, batch.size), true});
  return stacks;
}

std::vector<Dual> HigherOrderOperator::call_dual(const HopPtr& hop, std::vector<Dual>&& operands) const {
  Tensors primals;
  for (const Dual& operand : operands) primals.push_back(operand.primal);
  if (hop->draws()) {
    const auto& lifted = hop->lifted_draws();
    const Tensors drawn = call(lifted.draws, primals);
    const auto place = operands.begin() + static_cast<int64_t>(hop->begin(lifted.group + 1));
    std::vector<Dual> constants;
    for (size_t i = lifted.first; i < drawn.size(); ++i) constants.push_back({drawn[i]});
    operands.insert(place, constants.begin(), constants.end());
    return lifted.rest->op().call_dual(lifted.rest, std::move(operands));
  }
  const auto derivative = hop->derivative(tangent_flags(operands), /*create_graph=*/true);
  const Tensors results = call(hop, primals);
  Tensors again = call(derivative->forward(), part(primals, 0, derivative->forward()->num_operands()));
  again.erase(again.begin(), again.begin() + static_cast<int64_t>(derivative->first_residual(*hop)));
  const CalledAgain saved(std::move(primals), std::move(again));
  const Tensors tangents = tangents_by_derivative(*hop, *derivative, saved, results, operands);
  std::vector<Dual> duals;
  for (size_t i = 0; i < results.size(); ++i) duals.push_back({results[i], tangents[i]});
  return duals;
}

namespace detail {

bool any_tangent(const Tensors& operands) {
  return c10::AutogradState::get_tls_state().get_fw_grad_mode() &&
         std::any_of(operands.begin(), operands.end(), has_tangent);
}

bool needs_rules(const Tensors& operands) { return is_tracing() || levels_are_active() || any_tangent(operands); }

Tensors call_on_duals(const HopPtr& hop, Tensors&& operands) {
  std::vector<Dual> duals;
  for (const at::Tensor& operand : operands) duals.push_back(has_tangent(operand) ? unpack(operand) : Dual{operand});
  Tensors results;
  for (const Dual& dual : call_with_tangents(hop, std::move(duals))) results.push_back(pack(dual));
  return results;
}

Tensors call_below_grad(const Hop& hop, const Tensors& operands) {
  const TransformLevel level = innermost_level();
  DIPTYCH_ASSERT(level.kind == Kind::Grad, "a hop is recorded at a level of grad, and this is another");
  Tensors values;
  for (const at::Tensor& operand : operands) values.push_back(unwrap(operand, level).value);
  Tensors results;
  {
    const BelowLevel below;
    results = call(hop.shared_from_this(), std::move(values));
  }
  for (at::Tensor& result : results) result = wrap(result, level);
  return results;
}

Tensors call_at_level(const HopPtr& hop, Tensors&& operands) {
  const TransformLevel level = innermost_level();
  switch (level.kind) {
    case Kind::Vmap:
      return call_in_vmap(hop, operands, level);
    case Kind::Jvp:
      return call_in_jvp(hop, operands, level);
    case Kind::Grad:
      return records_gradients(*hop, operands) ? hop->op().call_with_grad(hop, std::move(operands))
                                               : call_below_grad(*hop, operands);
    default:
      throw UserError(
          fmt::format("[{}] got a call inside of a transform that hops have no rule for, expected vmap, "
                      "grad or jvp; call the function itself there",
                      hop->op().schema().name()));
  }
}

}  // namespace detail
}  // namespace diptych
