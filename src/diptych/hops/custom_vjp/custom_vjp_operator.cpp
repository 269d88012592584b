#include "diptych/hops/custom_vjp/custom_vjp_operator.h"

#include "diptych/base/check.h"
#include "diptych/hops/cond/cond_operator.h"
#include "diptych/hops/draws.h"
#include "diptych/hops/strides.h"
#include "diptych/hops/transforms/transformed_body.h"

namespace diptych::detail {
namespace {

using Tensors = std::vector<at::Tensor>;

HopPtr make_hop(std::shared_ptr<const Body> fwd, std::shared_ptr<const Body> bwd, const CustomLayout& layout) {
  return make_hop(CustomVjpOperator::get(), {std::move(fwd), std::move(bwd)}, layout.groups(), layout.attributes());
}

// Returns the body with its outputs from number `first` on repeated `times` more times.
std::shared_ptr<const Body> with_copies(const std::shared_ptr<const Body>& body, size_t first, size_t times) {
  if (times == 0) return body;
  Graph graph = *body->graph();
  std::vector<Value> outputs = graph.outputs();
  std::vector<Slot> slots = graph.output_slots();
  for (size_t round = 0; round < times; ++round) {
    for (size_t i = first; i < body->num_results(); ++i) {
      outputs.push_back(graph.outputs()[i]);
      slots.push_back(graph.output_slots()[i]);
    }
  }
  graph.set_outputs(std::move(outputs), std::move(slots));
  return std::make_shared<const Body>(std::make_shared<const Graph>(std::move(graph)));
}

class CustomDerivative final : public Derivative {
 public:
  CustomDerivative(const Hop& hop, bool create_graph) : layout_(hop), bwd_(hop.bodies()[1]) {
    if (create_graph) {
      // Differentiating the backward follows residuals back through fwd's own operators.
      forward_ = make_invoke(with_copies(hop.bodies()[0], layout_.num_results, layout_.copies), layout_.num_arguments);
    } else {
      CustomLayout with_residuals = layout_;
      ++with_residuals.copies;
      forward_ = make_hop(hop.bodies()[0], bwd_, with_residuals);
    }
    requires_grad_.resize(hop.num_results());
    for (size_t i = 0; i < layout_.num_results; ++i) {
      const auto dtype = hop.results()[i].dtype;
      requires_grad_[i] = c10::isFloatingType(dtype) || c10::isComplexType(dtype);
    }
  }

  const HopPtr& forward() const override { return forward_; }
  const std::vector<bool>& requires_grad() const override { return requires_grad_; }
  Tensors backward(const SavedCall& saved, const Tensors& tangents) const override {
    Tensors inputs;
    const size_t num_residuals = bwd_->num_inputs() - layout_.num_results - layout_.num_bwd_free;
    for (size_t i = 0; i < num_residuals; ++i) inputs.push_back(saved.residual(i));
    for (size_t i = 0; i < layout_.num_results; ++i) {
      const TensorMeta& meta = bwd_->input(num_residuals + i);
      inputs.push_back(tangents[i].defined() ? tangents[i] : zeros_like_meta(meta));
    }
    const size_t num_fwd = layout_.num_arguments + layout_.num_free;
    for (size_t i = 0; i < layout_.num_bwd_free; ++i) inputs.push_back(saved.operand(num_fwd + i));
    const Tensors found = bwd_->run(std::move(inputs), {.differentiable = true});
    Tensors gradients(num_fwd + layout_.num_bwd_free);
    size_t next = 0;
    for (size_t i = 0; i < layout_.num_arguments; ++i) {
      if (layout_.has_gradient[i]) gradients[i] = found[next++];
    }
    return gradients;
  }

 private:
  CustomLayout layout_;
  std::shared_ptr<const Body> bwd_;
  HopPtr forward_;
  std::vector<bool> requires_grad_;
};

}  // namespace

CustomLayout::CustomLayout(const Hop& hop)
    : num_arguments(hop.group("args")),
      num_free(hop.group("fwd_free")),
      num_bwd_free(hop.group("bwd_free")),
      num_results(static_cast<size_t>(hop.attributes().integer("num_results"))),
      copies(static_cast<size_t>(hop.attributes().integer("copies"))),
      has_gradient(hop.attributes().flags("has_gradient")) {}

std::vector<HopAttribute> CustomLayout::attributes() const {
  return {{"num_results", static_cast<int64_t>(num_results)},
          {"copies", static_cast<int64_t>(copies)},
          {"has_gradient", flags_attribute(has_gradient)}};
}

const CustomVjpOperator& CustomVjpOperator::get() {
  static const auto* const op = new CustomVjpOperator;
  return *op;
}

std::vector<TensorMeta> CustomVjpOperator::infer(const Hop& hop) const {
  const CustomLayout layout(hop);
  const size_t total = hop.body(0).num_results();
  std::vector<TensorMeta> metas;
  for (size_t i = 0; i < layout.num_results; ++i) metas.push_back(hop.body(0).result(i));
  for (size_t round = 0; round < layout.copies; ++round) {
    for (size_t i = layout.num_results; i < total; ++i) metas.push_back(hop.body(0).result(i));
  }
  return metas;
}

HopFunction CustomVjpOperator::compile(const Hop& hop) const {
  return [fwd = hop.bodies()[0], metas = hop.results(), layout = CustomLayout(hop)](Tensors&& operands) {
    const Tensors kept = operands;
    operands.resize(fwd->num_inputs());
    const Tensors outputs = fwd->run(std::move(operands));
    const auto residuals = outputs.begin() + static_cast<int64_t>(layout.num_results);
    Tensors results(outputs.begin(), residuals);
    for (size_t round = 0; round < layout.copies; ++round) results.insert(results.end(), residuals, outputs.end());
    own_results(metas, kept, results);
    return results;
  };
}

std::unique_ptr<Derivative> CustomVjpOperator::differentiate(const Hop& hop, const std::vector<bool>& requires_grad,
                                                             bool create_graph) const {
  const CustomLayout layout(hop);
  for (size_t i = layout.num_arguments; i < layout.num_arguments + layout.num_free; ++i) {
    DIPTYCH_CHECK(!requires_grad[i],
                  "[custom_vjp] fwd captures a tensor that requires grad ({}), but bwd returns no gradient for it; "
                  "pass it as an argument, or detach() it",
                  hop.body(0).graph()->input_slots()[i].path);
  }
  DIPTYCH_CHECK(!create_graph || !hop.body(1).has_own_rule(),
                "[custom_vjp] bwd calls a torch::autograd::Function or registers a hook, whose backward can't be "
                "differentiated again; use custom_vjp there, too");
  return std::make_unique<CustomDerivative>(hop, create_graph);
}

std::vector<Batched> CustomVjpOperator::call_batched(const HopPtr& hop, std::vector<Batched>&& operands,
                                                     const Batch& batch) const {
  const auto batched = hop->transformed(batch_key({}, batch), [&] {
    const auto whole = [&](const Body& body) {
      return batch_body(body, std::vector<bool>(body.num_inputs(), true), std::vector<bool>(body.num_results(), true),
                        batch)
          .body;
    };
    return Hop::Transformed{make_hop(whole(hop->body(0)), whole(hop->body(1)), CustomLayout(*hop))};
  });
  return call_on_batches(batched->hop, operands, batch);
}

HigherOrderOperator::LiftedDraws CustomVjpOperator::lift_draws(const Hop& hop) const {
  const CustomLayout layout(hop);
  DIPTYCH_CHECK(!hop.body(1).draws(),
                "[custom_vjp] bwd draws random numbers, so it can't be run twice; draw in fwd and return the numbers "
                "as residuals");
  const auto split = detail::split_draws(*hop.body(0).graph(), 0, layout.num_arguments);
  CustomLayout rest = layout;
  rest.num_arguments += split.num_draws;
  rest.has_gradient.resize(rest.num_arguments);
  // The drawing hop also takes what bwd captured, and does not read it.
  auto draws = make_hop(BranchOperator::invoke(), {std::make_shared<const Body>(split.draws)},
                        {layout.num_arguments, layout.num_free + layout.num_bwd_free});
  return {draws, make_hop(std::make_shared<const Body>(split.rest), hop.bodies()[1], rest), 0, 0};
}

}  // namespace diptych::detail
