#include "diptych/hops/while_loop/while_gradient.h"

#include <algorithm>

#include "diptych/base/list.h"
#include "diptych/hops/gradient_body.h"
#include "diptych/hops/while_loop/while_operator.h"
#include "diptych/trace/autograd_guard.h"

namespace diptych::detail {
namespace {

// The body's only node, if it is a loop over the body's inputs in their order, whose results the body returns.
const Node* loop_in(const Graph& body) {
  if (body.nodes().size() != 1) return nullptr;
  const Node& loop = body.nodes()[0];
  if (!loop.op.is_hop() || &loop.op.hop() != &WhileOperator::get().schema()) return nullptr;
  std::vector<Value> operands;
  for_each_operand_value(loop, [&](Value value) { operands.push_back(value); });
  const bool is_bare = operands == body.inputs() && std::equal(loop.outputs.begin(), loop.outputs.end(),
                                                               body.outputs().begin(), body.outputs().end());
  return is_bare ? &loop : nullptr;
}

}  // namespace

std::optional<LoopGradient> gradient_of_while_loop(const Node& vjp) {
  const Node* const loop = loop_in(*vjp.subgraphs[0]);
  if (loop == nullptr) return std::nullopt;
  const HopAttributes attributes = HopAttributes::of(vjp);
  const HopPtr hop = Hop::of(*loop);
  const Body& step = hop->body(1);
  if (step.draws() || step.has_own_derivative()) return std::nullopt;
  const size_t num_carries = hop->group("init"), first_free = num_carries + hop->group("condition_free");
  const auto wanted = attributes.flags("wanted");
  const auto requires_grad = joined(part(wanted, 0, num_carries), part(wanted, first_free, hop->group("step_free")));
  const AutogradGuard autograd;
  const auto pair = settled_pair(step, requires_grad, num_carries, /*create_graph=*/false);
  auto body = make_gradient_body(*pair, step, num_carries, 0, attributes.flags("given"));
  return LoopGradient{pair->forward(), body.graph, body.carries, body.sums, body.slices, body.free};
}

}  // namespace diptych::detail
