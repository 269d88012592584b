// Rules of Note [Transformed hops] for hop.while_loop.
#include <algorithm>

#include <ATen/ops/logical_and.h>
#include <ATen/ops/zeros_like.h>

#include "diptych/base/list.h"
#include "diptych/hops/call.h"
#include "diptych/hops/cond/cond_operator.h"
#include "diptych/hops/transforms/select_elements.h"
#include "diptych/hops/transforms/transformed_body.h"
#include "diptych/hops/while_loop/while_layout.h"
#include "diptych/hops/while_loop/while_operator.h"

namespace diptych::detail {
namespace {

using Tensors = std::vector<at::Tensor>;
using Flags = std::vector<bool>;
using BodyPtr = std::shared_ptr<const Body>;

std::vector<TensorMeta> inputs_of(const Body& body, size_t begin, size_t count) {
  std::vector<TensorMeta> metas;
  for (size_t i = begin; i < begin + count; ++i) metas.push_back(body.input(i));
  return metas;
}

HopPtr make_while(const BodyPtr& condition, const BodyPtr& step, size_t num_carries, int64_t every) {
  return make_hop(WhileOperator::get(), {condition, step},
                  {num_carries, condition->num_inputs() - num_carries, step->num_inputs() - num_carries},
                  {{"checkpoint_every", every}});
}

/// The bodies of a loop on batches.
struct BatchedLoop {
  BodyPtr condition, step;
  Flags carries;
  bool differs = false;  ///< whether elements may make different numbers of steps
};

BatchedLoop batch_loop(const Hop& hop, const WhileLayout& layout, const Flags& operands, const Batch& batch) {
  const auto of_condition = part(operands, layout.num_carries, layout.num_condition_free);
  const auto of_step = part(operands, layout.num_carries + layout.num_condition_free, layout.num_free);
  BatchedLoop loop;
  const auto settle = [&](const Flags& carries) {
    Flags inputs = joined(carries, of_step);
    const auto made = settle_carries(inputs, layout.num_carries, [&](const Flags& flags) {
      return batch_body(hop.body(1), flags, part(flags, 0, layout.num_carries), batch);
    });
    loop.step = made.body;
    loop.carries = made.results;
  };
  settle(part(operands, 0, layout.num_carries));
  auto condition = batch_body(hop.body(0), joined(loop.carries, of_condition), {false}, batch);
  loop.differs = condition.results[0];
  if (loop.differs) {
    settle(Flags(layout.num_carries, true));
    condition = batch_body(hop.body(0), joined(loop.carries, of_condition), {true}, batch);
  }
  loop.condition = condition.body;
  return loop;
}

// The loop whose further carry says which elements are not done, and whose step changes these alone: the others repeat
// the step of one of these, so that nothing is computed that no element computes.
HopPtr make_masked(const BatchedLoop& loop, const WhileLayout& layout, const Flags& of_step, const Batch& batch) {
  const size_t num_carries = layout.num_carries;
  std::vector<TensorMeta> carries = inputs_of(*loop.step, 0, num_carries);
  carries.push_back(contiguous(loop.condition->result(0)));
  const auto any =
      capture_pure([&](const Tensors& given) { return Tensors{given.back().any()}; }, carries, "condition");
  auto inputs = joined(carries, inputs_of(*loop.step, num_carries, layout.num_free));
  inputs = joined(std::move(inputs), inputs_of(*loop.condition, num_carries, layout.num_condition_free));
  const auto step = [&](const Tensors& given) {
    const at::Tensor going = given[num_carries].reshape({batch.size});
    const SelectElements select(going);
    Tensors operands;
    for (size_t i = 0; i < num_carries; ++i) operands.push_back(select.or_another(given[i]));
    for (size_t i = 0; i < layout.num_free; ++i) {
      const at::Tensor& free = given[num_carries + 1 + i];
      operands.push_back(of_step[i] ? select.or_another(free) : free);
    }
    Tensors next = run_in_trace(*loop.step, std::move(operands));
    for (size_t i = 0; i < num_carries; ++i) next[i] = select.choose(next[i], given[i]);
    const Tensors tests = run_in_trace(
        *loop.condition, joined(next, part(given, num_carries + 1 + layout.num_free, layout.num_condition_free)));
    next.push_back(given[num_carries].logical_and(tests[0]));
    return next;
  };
  return make_while(any, capture_pure(step, inputs, "step"), num_carries + 1, layout.every);
}

}  // namespace

std::vector<Batched> WhileOperator::call_batched(const HopPtr& hop, std::vector<Batched>&& operands,
                                                 const Batch& batch) const {
  const WhileLayout layout(*hop);
  const auto flags = batched_flags(operands);
  // The second hop of a loop whose elements differ is its condition alone.
  auto key = batch_key(flags, batch);
  const auto loop = [&] { return batch_loop(*hop, layout, flags, batch); };
  const auto transformed = hop->transformed(key, [&] {
    const BatchedLoop made = loop();
    Hop::Transformed result{nullptr, made.carries};
    result.hop = made.differs ? make_masked(made, layout, layout.free(flags), batch)
                              : make_while(made.condition, made.step, layout.num_carries, layout.every);
    return result;
  });
  Tensors carries, condition_free, free;
  for (size_t i = 0; i < operands.size(); ++i) {
    const bool is_carry = i < layout.num_carries;
    Tensors& group = is_carry ? carries : i < layout.num_carries + layout.num_condition_free ? condition_free : free;
    group.push_back(is_carry && transformed->results[i] ? as_batch(operands[i], batch) : operands[i].value);
  }
  const bool differs = transformed->hop->group("init") > layout.num_carries;
  if (differs) {
    key.push_back(1);
    const auto test =
        hop->transformed(key, [&] { return Hop::Transformed{make_invoke(loop().condition, carries.size())}; });
    const auto going = call(test->hop, joined(carries, condition_free));
    carries.push_back(going[0]);
    free = joined(std::move(free), condition_free);
    condition_free.clear();
  }
  Tensors results = call(transformed->hop, joined(joined(std::move(carries), condition_free), free));
  std::vector<Batched> batches;
  for (size_t i = 0; i < layout.num_carries; ++i) batches.push_back({results[i], transformed->results[i]});
  return batches;
}

std::vector<Dual> WhileOperator::call_dual(const HopPtr& hop, std::vector<Dual>&& operands) const {
  const WhileLayout layout(*hop);
  const auto flags = tangent_flags(operands);
  const Groups groups{layout.num_carries, layout.num_condition_free, layout.num_free};
  const auto transformed = hop->transformed(tangent_key(flags), [&] {
    Flags inputs = joined(part(flags, 0, layout.num_carries), layout.free(flags));
    const auto step = settle_carries(inputs, layout.num_carries, [&](const Flags& now) {
      return dual_body(hop->body(1), {layout.num_carries, layout.num_free}, now, {layout.num_carries},
                       part(now, 0, layout.num_carries));
    });
    // The condition has no tangent, and reads none.
    const size_t num_carries = with_tangents({layout.num_carries}, step.results)[0];
    const auto metas = joined(inputs_of(*step.body, 0, num_carries),
                              inputs_of(hop->body(0), layout.num_carries, layout.num_condition_free));
    const auto condition = capture_pure(
        [&](const Tensors& given) {
          return run_in_trace(hop->body(0), joined(part(given, 0, layout.num_carries),
                                                   part(given, num_carries, layout.num_condition_free)));
        },
        metas, "condition");
    return Hop::Transformed{make_while(condition, step.body, num_carries, layout.every), step.results};
  });
  for (size_t i = 0; i < operands.size(); ++i) {
    const bool is_of_condition = i >= layout.num_carries && i < layout.num_carries + layout.num_condition_free;
    if (is_of_condition) operands[i].tangent = at::Tensor();
    if (i < layout.num_carries && transformed->results[i] && !operands[i].tangent.defined()) {
      operands[i].tangent = at::zeros_like(operands[i].primal);
    }
  }
  const Tensors tensors = call(transformed->hop, interleave(operands, groups));
  return deinterleave(tensors, {layout.num_carries}, transformed->results);
}

}  // namespace diptych::detail
