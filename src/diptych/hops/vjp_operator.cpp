#include "diptych/hops/vjp_operator.h"

#include <ATen/ops/alias.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <map>

#include "diptych/base/check.h"
#include "diptych/base/list.h"
#include "diptych/graph/subgraphs.h"
#include "diptych/hops/call.h"
#include "diptych/hops/strides.h"
#include "diptych/hops/transforms/call_at_level.h"
#include "diptych/hops/transforms/transformed_body.h"
#include "diptych/trace/autograd_guard.h"
#include "diptych/trace/recorder.h"

namespace diptych::detail {
namespace {

using Tensors = std::vector<at::Tensor>;

struct VjpLayout {
  explicit VjpLayout(const Hop& hop)
      : num_inputs(hop.group("inputs")),
        wanted(hop.attributes().flags("wanted")),
        given(hop.attributes().flags("given")) {}
  size_t num_inputs;
  std::vector<bool> wanted;
  std::vector<bool> given;
};

// `inputs` are the body's, detached from their history where a gradient is wanted.
Tensors gradients_of(const Body& body, const VjpLayout& layout, const Tensors& inputs, const Tensors& tangents,
                     bool create_graph) {
  const Tensors results = body.run(Tensors(inputs), {.differentiable = true});
  Tensors roots, given, wanted;
  size_t next = 0;
  for (size_t i = 0; i < results.size(); ++i) {
    if (!layout.given[i]) continue;
    const at::Tensor& tangent = tangents[next++];
    if (!results[i].requires_grad()) continue;
    roots.push_back(results[i]);
    given.push_back(tangent);
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (layout.wanted[i]) wanted.push_back(inputs[i]);
  }
  Tensors gradients(wanted.size());
  if (!roots.empty()) {
    gradients = torch::autograd::grad(roots, wanted, given, /*retain_graph=*/create_graph, create_graph,
                                      /*allow_unused=*/true);
  }
  for (size_t i = 0; i < gradients.size(); ++i) {
    if (!gradients[i].defined()) gradients[i] = at::zeros_like(wanted[i]);
  }
  return gradients;
}

// Whether something is computed under no_grad, whose tangent a derivative of the gradients does not know of.
bool has_values_without_grad(const Graph& graph) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(), [](const Node& node) {
    return !node.grad_enabled || any_subgraph(node, has_values_without_grad);
  });
}

// The hop whose results are the tangents of the results of `hop`, see VjpOperator::call_dual(). Its results of dy are
// those that have a tangent.
Hop::Transformed dual_vjp(const Hop& hop, const VjpLayout& layout, const std::vector<bool>& has_tangent) {
  const size_t num_results = hop.body(0).num_results();
  const auto dual = dual_body(hop.body(0), {layout.num_inputs}, part(has_tangent, 0, layout.num_inputs), {num_results},
                              std::vector<bool>(num_results));
  std::vector<bool> wanted = layout.wanted, given, given_for_tangents;
  wanted.resize(dual.body->num_inputs());
  size_t next = layout.num_inputs;
  for (size_t i = 0; i < num_results; ++i) {
    given.push_back(layout.given[i] && has_tangent[next]);
    if (dual.results[i]) given_for_tangents.push_back(layout.given[i]);
    next += layout.given[i] ? 1 : 0;
  }
  given = joined(std::move(given), given_for_tangents);
  const auto num_given = static_cast<size_t>(std::count(given.begin(), given.end(), true));
  return {make_hop(VjpOperator::get(), {dual.body}, {wanted.size(), num_given},
                   {{"wanted", flags_attribute(wanted)}, {"given", flags_attribute(given)}}),
          dual.results};
}

/// See replay_derivative().
class ReplayDerivative final : public Derivative {
 public:
  ReplayDerivative(const Hop& hop, const std::vector<TensorMeta>& operands, const std::vector<bool>& requires_grad,
                   std::optional<Reach> reach)
      : forward_(hop.shared_from_this()), may_be_wanted_(requires_grad) {
    Graph graph("forward");
    std::vector<Value> values;
    for (size_t i = 0; i < operands.size(); ++i) {
      TensorMeta meta = operands[i];
      meta.requires_grad = requires_grad[i];
      values.push_back(graph.add_input(meta, {SlotKind::kArgument, fmt::format("operand.{}", i)}));
    }
    Node node = hop.node(values);
    node.returns.assign(hop.num_results(), -1);
    const size_t index = graph.add_node(std::move(node), {hop.results().begin(), hop.results().end()});
    std::vector<Slot> slots;
    for (size_t i = 0; i < hop.num_results(); ++i) slots.push_back({SlotKind::kOutput, fmt::format("result.{}", i)});
    const auto& outputs = graph.nodes()[index].outputs;
    graph.set_outputs({outputs.begin(), outputs.end()}, std::move(slots));
    body_ = std::make_shared<const Body>(std::make_shared<const Graph>(std::move(graph)));
    for (size_t i = 0; i < hop.num_results(); ++i) {
      const auto dtype = hop.results()[i].dtype;
      const bool is_differentiable = c10::isFloatingType(dtype) || c10::isComplexType(dtype);
      requires_grad_.push_back(is_differentiable && (!reach || reach->results[i]));
    }
    if (reach) reached_ = std::move(reach->operands);
  }

  const HopPtr& forward() const override { return forward_; }
  const std::vector<bool>& requires_grad() const override { return requires_grad_; }
  Tensors backward(const SavedCall& saved, const Tensors& tangents) const override {
    const std::vector<bool> is_wanted = wanted_for(tangents);
    Tensors gradients(is_wanted.size());
    if (std::find(is_wanted.begin(), is_wanted.end(), true) == is_wanted.end()) return gradients;
    Tensors operands;
    for (size_t i = 0; i < is_wanted.size(); ++i) operands.push_back(saved.operand(i));
    std::vector<bool> given;
    for (const at::Tensor& tangent : tangents) {
      given.push_back(tangent.defined());
      if (tangent.defined()) operands.push_back(tangent);
    }
    const auto vjp = make_hop(VjpOperator::get(), {body_}, {is_wanted.size(), operands.size() - is_wanted.size()},
                              {{"wanted", flags_attribute(is_wanted)}, {"given", flags_attribute(given)}});
    const auto found = call(vjp, std::move(operands));
    size_t next = 0;
    for (size_t i = 0; i < is_wanted.size(); ++i) {
      if (is_wanted[i]) gradients[i] = found[next++];
    }
    return gradients;
  }

 private:
  std::vector<bool> wanted_for(const Tensors& tangents) const {
    std::vector<bool> wanted = may_be_wanted_;
    if (!reached_) return wanted;
    std::vector<bool> given;
    for (const at::Tensor& tangent : tangents) given.push_back(tangent.defined());
    const auto reached = reached_(given);
    for (size_t i = 0; i < wanted.size(); ++i) wanted[i] = wanted[i] && reached[i];
    return wanted;
  }

  HopPtr forward_;
  std::vector<bool> may_be_wanted_;
  std::function<std::vector<bool>(const std::vector<bool>& given)> reached_;
  std::vector<bool> requires_grad_;
  std::shared_ptr<const Body> body_;
};

}  // namespace

const VjpOperator& VjpOperator::get() {
  static const auto* const op = new VjpOperator;
  return *op;
}

std::vector<TensorMeta> VjpOperator::infer(const Hop& hop) const {
  const VjpLayout layout(hop);
  std::vector<TensorMeta> metas;
  for (size_t i = 0; i < layout.num_inputs; ++i) {
    if (layout.wanted[i]) metas.push_back(contiguous(hop.body(0).input(i)));
  }
  return metas;
}

HopFunction VjpOperator::compile(const Hop& hop) const {
  return [body = hop.bodies()[0], metas = hop.results(), layout = VjpLayout(hop)](Tensors&& operands) {
    const detail::AutogradGuard autograd;
    Tensors inputs(operands.begin(), operands.begin() + static_cast<int64_t>(layout.num_inputs));
    const Tensors tangents(operands.begin() + static_cast<int64_t>(layout.num_inputs), operands.end());
    for (size_t i = 0; i < inputs.size(); ++i) inputs[i] = inputs[i].detach().set_requires_grad(layout.wanted[i]);
    Tensors gradients = gradients_of(*body, layout, inputs, tangents, /*create_graph=*/false);
    own_results(metas, operands, gradients);
    return gradients;
  };
}

Tensors VjpOperator::call_with_grad(const HopPtr& hop, Tensors&& operands) const {
  if (needs_rules(operands)) return HigherOrderOperator::call_with_grad(hop, std::move(operands));
  const VjpLayout layout(*hop);
  Tensors inputs(operands.begin(), operands.begin() + static_cast<int64_t>(layout.num_inputs));
  const Tensors tangents(operands.begin() + static_cast<int64_t>(layout.num_inputs), operands.end());
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!layout.wanted[i]) continue;
    inputs[i] = inputs[i].requires_grad() ? at::alias(inputs[i]) : inputs[i].detach().set_requires_grad(true);
  }
  return gradients_of(hop->body(0), layout, inputs, tangents, /*create_graph=*/true);
}

std::vector<Batched> VjpOperator::call_batched(const HopPtr& hop, std::vector<Batched>&& operands,
                                               const Batch& batch) const {
  const auto batched = hop->transformed(batch_key({}, batch), [&] {
    const Body& body = hop->body(0);
    const std::vector<bool> inputs(body.num_inputs(), true), results(body.num_results(), true);
    const VjpLayout layout(*hop);
    return Hop::Transformed{
        make_hop(*this, {batch_body(body, inputs, results, batch).body}, hop->groups(),
                 {{"wanted", flags_attribute(layout.wanted)}, {"given", flags_attribute(layout.given)}})};
  });
  return call_on_batches(batched->hop, operands, batch);
}

// With y, dy = f(x, dx) the function that also computes tangents, the tangent of f'(x)^T v is the gradient with respect
// to x of <dv, y> + <v, dy>. What f computes under no_grad has a tangent in it and no gradient, as in eager. Where
// nothing is, the gradients are differentiated instead: LibTorch's tangents of normalizations, linalg.solve and
// linalg.det have wrong gradients (jacrev(jacfwd(f)) in eager), and their second derivatives right ones.
std::vector<Dual> VjpOperator::call_dual(const HopPtr& hop, std::vector<Dual>&& operands) const {
  if (hop->draws() || !has_values_without_grad(*hop->body(0).graph())) {
    return HigherOrderOperator::call_dual(hop, std::move(operands));
  }
  const VjpLayout layout(*hop);
  const std::vector<bool> has_tangent = tangent_flags(operands);
  const auto transformed =
      hop->transformed(tangent_key(has_tangent), [&] { return dual_vjp(*hop, layout, has_tangent); });
  Tensors primals, inputs, cotangents, cotangents_of_tangents;
  for (const Dual& operand : operands) primals.push_back(operand.primal);
  inputs = part(primals, 0, layout.num_inputs);
  for (size_t i = 0; i < layout.num_inputs; ++i) {
    if (has_tangent[i]) inputs.push_back(operands[i].tangent);
  }
  size_t next = layout.num_inputs;
  for (size_t i = 0; i < layout.given.size(); ++i) {
    if (!layout.given[i]) continue;
    const Dual& tangent = operands[next++];
    if (tangent.tangent.defined()) cotangents.push_back(tangent.tangent);
    if (transformed->results[i]) cotangents_of_tangents.push_back(tangent.primal);
  }
  const Tensors found = call(hop, std::move(primals));
  const Tensors tangents = call(transformed->hop, joined(joined(inputs, cotangents), cotangents_of_tangents));
  std::vector<Dual> results;
  for (size_t i = 0; i < found.size(); ++i) results.push_back({found[i], tangents[i]});
  return results;
}

std::unique_ptr<Derivative> VjpOperator::differentiate(const Hop& hop, const std::vector<bool>& requires_grad,
                                                       bool /*create_graph*/) const {
  const VjpLayout layout(hop);
  std::vector<TensorMeta> operands;
  for (size_t i = 0; i < layout.num_inputs; ++i) operands.push_back(hop.body(0).input(i));
  for (size_t i = 0; i < layout.given.size(); ++i) {
    if (layout.given[i]) operands.push_back(contiguous(hop.body(0).result(i)));
  }
  return replay_derivative(hop, operands, requires_grad);
}

std::unique_ptr<Derivative> replay_derivative(const Hop& hop, const std::vector<TensorMeta>& operands,
                                              const std::vector<bool>& requires_grad,
                                              const std::function<Reach()>& find_reach) {
  for (const auto& body : hop.bodies()) {
    DIPTYCH_CHECK(!body->has_own_derivative(),
                  "[{}] the body calls a torch::autograd::Function or registers a hook, or changes a tensor in place "
                  "where autograd does not see it (under no_grad, through detach() or by .data), and differentiating "
                  "its graph would give other gradients; use custom_vjp, or an out-of-place operator",
                  hop.op().schema().name());
  }
  return std::make_unique<ReplayDerivative>(hop, operands, requires_grad,
                                            find_reach ? std::optional(find_reach()) : std::nullopt);
}

}  // namespace diptych::detail
