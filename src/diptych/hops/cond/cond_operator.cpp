#include "diptych/hops/cond/cond_operator.h"

#include "diptych/hops/cond/cond_derivative.h"
#include "diptych/hops/draws.h"
#include "diptych/hops/graph_edit.h"

namespace diptych::detail {
namespace {

using Tensors = std::vector<at::Tensor>;
using Bodies = std::vector<std::shared_ptr<const Body>>;

std::shared_ptr<const Body> body_of(Graph graph) {
  return std::make_shared<const Body>(std::make_shared<const Graph>(std::move(graph)));
}

}  // namespace

BranchLayout::BranchLayout(const Hop& hop)
    : num_choosers(hop.bodies().size() > 1 ? 1 : 0),
      num_arguments(hop.group("args")),
      num_results(hop.body(0).num_results()) {
  const size_t first = num_choosers + 1;
  for (size_t i = 0; i < hop.bodies().size(); ++i) {
    num_free.push_back(hop.groups().at(first + i));
    first_free.push_back(hop.begin(first + i));
  }
}

const BranchOperator& BranchOperator::cond() {
  static const auto* const op = new BranchOperator(
      "cond(Tensor pred, Tensor[] args, Tensor[] true_free, Tensor[] false_free)", {"true", "false"});
  return *op;
}

const BranchOperator& BranchOperator::invoke() {
  static const auto* const op = new BranchOperator("invoke(Tensor[] args, Tensor[] free)", {"body"});
  return *op;
}

std::vector<TensorMeta> BranchOperator::infer(const Hop& hop) const {
  std::vector<TensorMeta> metas;
  for (size_t i = 0; i < hop.body(0).num_results(); ++i) metas.push_back(hop.body(0).result(i));
  return metas;
}

HopFunction BranchOperator::compile(const Hop& hop) const {
  return [bodies = hop.bodies(), metas = hop.results(), layout = detail::BranchLayout(hop)](Tensors&& operands) {
    const size_t chosen = layout.num_choosers == 0 || operands[0].item<bool>() ? 0 : 1;
    const Tensors kept = operands;  // held until own_results() has compared the results with them
    Tensors inputs;
    for (size_t i = 0; i < bodies[chosen]->num_inputs(); ++i) inputs.push_back(operands[layout.operand(chosen, i)]);
    operands.clear();
    Tensors results = bodies[chosen]->run(std::move(inputs));
    own_results(metas, kept, results);
    return results;
  };
}

std::unique_ptr<Derivative> BranchOperator::differentiate(const Hop& hop, const std::vector<bool>& requires_grad,
                                                          bool create_graph) const {
  return detail::branch_derivative(hop, requires_grad, create_graph);
}

HigherOrderOperator::LiftedDraws BranchOperator::lift_draws(const Hop& hop) const {
  const detail::BranchLayout layout(hop);
  std::vector<detail::SplitDraws> split;
  std::vector<std::vector<TensorMeta>> drawn;
  for (const auto& body : hop.bodies()) {
    split.push_back(detail::split_draws(*body->graph(), 0, layout.num_arguments));
    drawn.emplace_back();
    const Graph& draws = *split.back().draws;
    for (const Value draw : draws.outputs()) drawn.back().push_back(draws.meta(draw));
  }
  // Each body returns, and takes, the draws of all bodies.
  Bodies draws;
  Bodies rest;
  for (size_t i = 0; i < split.size(); ++i) {
    Graph drawing = *split[i].draws;
    Graph remaining = *split[i].rest;
    size_t before = 0;
    for (size_t k = 0; k < split.size(); ++k) {
      if (k != i) {
        drawing = detail::insert_outputs(drawing, before, drawn[k], detail::Filler::kEmpty);
        remaining = detail::insert_inputs(remaining, layout.num_arguments + before, drawn[k]);
      }
      before += drawn[k].size();
    }
    draws.push_back(body_of(std::move(drawing)));
    rest.push_back(body_of(std::move(remaining)));
  }
  auto groups = hop.groups();
  auto draws_hop = with_bodies(hop, std::move(draws), groups);
  groups[layout.num_choosers] += draws_hop->num_results();
  return {draws_hop, with_bodies(hop, std::move(rest), groups), layout.num_choosers, 0};
}

HopPtr with_bodies(const Hop& hop, std::vector<std::shared_ptr<const Body>> bodies, std::vector<size_t> groups) {
  return std::make_shared<const Hop>(hop.op(), std::move(bodies), std::move(groups), hop.attributes());
}

HopPtr make_invoke(std::shared_ptr<const Body> body, size_t num_arguments) {
  const size_t num_free = body->num_inputs() - num_arguments;
  return make_hop(BranchOperator::invoke(), {std::move(body)}, {num_arguments, num_free});
}

}  // namespace diptych::detail
