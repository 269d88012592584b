#include "diptych/hops/while_loop/while_operator.h"

#include <ATen/ops/stack.h>

#include "diptych/base/list.h"
#include "diptych/hops/call.h"
#include "diptych/hops/checkpointed_scan/checkpointed_scan.h"
#include "diptych/hops/draws.h"
#include "diptych/hops/gradient_body.h"
#include "diptych/hops/scan/scan_operator.h"
#include "diptych/hops/strides.h"
#include "diptych/hops/transforms/call_at_level.h"
#include "diptych/hops/vjp_operator.h"
#include "diptych/hops/while_loop/while_gradient.h"
#include "diptych/hops/while_loop/while_layout.h"
#include "diptych/interpreter/run_guards.h"
#include "diptych/trace/recorder.h"

namespace diptych::detail {
namespace {

using Tensors = std::vector<at::Tensor>;

bool holds(const Body& condition, const Tensors& carries, const Tensors& free) {
  return condition.run(joined(carries, free))[0].item<bool>();
}

void lay_out(Tensors& carries, const Body& body) {
  for (size_t i = 0; i < carries.size(); ++i) carries[i] = with_strides(carries[i], body.input(i));
}

// Finds what depends on a carry or a captured tensor after any number of steps; elsewhere no gradient flows.
Reach reach_of(const WhileLayout& layout, const std::shared_ptr<const Body>& step,
               const std::vector<bool>& requires_grad) {
  std::vector<bool> inputs = part(requires_grad, 0, layout.num_carries);
  const auto of_free = part(requires_grad, layout.num_carries + layout.num_condition_free, layout.num_free);
  inputs.insert(inputs.end(), of_free.begin(), of_free.end());
  const auto pair = detail::settled_pair(*step, inputs, layout.num_carries, /*create_graph=*/false);
  Reach reach{pair->differentiable(), {}};
  // With no step at all, a carry is what it was.
  for (size_t i = 0; i < layout.num_carries; ++i) reach.results[i] = reach.results[i] || requires_grad[i];
  reach.operands = [=](const std::vector<bool>& given) {
    const auto body = detail::make_gradient_body(*pair, *step, layout.num_carries, 0, given);
    std::vector<bool> reached = given;
    reached.resize(layout.num_carries + layout.num_condition_free + layout.num_free);
    for (const size_t carry : body.carries) reached[carry] = true;
    for (const size_t sum : body.sums) reached[layout.num_carries + layout.num_condition_free + sum] = true;
    return reached;
  };
  return reach;
}

/// Rows of tensors, one row a step, that become one stack per column.
class Columns {
 public:
  void add(const Tensors& row) {
    columns_.resize(row.size());
    for (size_t i = 0; i < row.size(); ++i) columns_[i].push_back(row[i]);
  }
  Tensors stacks(const std::vector<TensorMeta>& metas) const {
    Tensors found;
    for (size_t i = 0; i < metas.size(); ++i) {
      found.push_back(i < columns_.size() ? at::stack(columns_[i]) : empty_like_meta(metas[i]));
    }
    return found;
  }

 private:
  std::vector<Tensors> columns_;
};

/// A loop that gradients flow through, run outside a capture: while it runs it keeps what a scan of as many steps would
/// have kept, residuals or some carries, and then takes that scan's history.
class TracedLoop {
 public:
  TracedLoop(const HopPtr& hop, const Tensors& operands)
      : hop_(hop), layout_(*hop), operands_(operands), step_(hop->bodies()[1]), free_(layout_.free(operands)) {
    if (step_->draws()) {
      const auto split = detail::split_draws(*step_->graph(), layout_.num_carries, layout_.num_carries);
      drawing_ = std::make_shared<const Body>(split.draws);
      step_ = std::make_shared<const Body>(split.rest);
    }
    num_draws_ = step_->num_inputs() - layout_.num_carries - layout_.num_free;
    // A scan of no steps has the same halves as one of any length.
    std::vector<bool> requires_grad;
    for (const at::Tensor& carry : layout_.carries(operands)) requires_grad.push_back(carry.requires_grad());
    requires_grad.insert(requires_grad.end(), num_draws_, false);
    for (const at::Tensor& tensor : free_) requires_grad.push_back(tensor.requires_grad());
    shape_ = make_scan(step_, layout_.num_carries, num_draws_, 0, false);
    forward_ = shape_->derivative(requires_grad, false)->forward();
  }

  Tensors run() {
    Tensors carries = run_steps();
    std::vector<TensorMeta> draw_metas;
    for (size_t i = 0; i < num_draws_; ++i) draw_metas.push_back(stacked(step_->input(layout_.num_carries + i), 0));
    const Tensors draws = draws_.stacks(draw_metas);
    const Tensors operands = joined(joined(layout_.carries(operands_), draws), free_);
    return detail::attach_history(scan(), operands, std::move(carries), kept_.stacks(kept_metas()));
  }

 private:
  bool keeps_carries() const { return layout_.every > 0 && length_ > 0; }

  Tensors run_steps() {
    const RunBelowAutograd guard;
    const Tensors condition_free = layout_.condition_free(operands_);
    Tensors carries = layout_.carries(operands_);
    lay_out(carries, *step_);
    for (; holds(hop_->body(0), carries, condition_free); ++length_) {
      if (layout_.every > 0 && length_ > 0 && length_ % layout_.every == 0) kept_.add(carries);
      Tensors draws;
      if (drawing_) {
        draws = drawing_->run(joined(carries, free_));
        draws.erase(draws.begin(), draws.begin() + static_cast<int64_t>(layout_.num_carries));
      }
      draws_.add(draws);
      const Body& body = layout_.every > 0 ? *step_ : forward_->body(0);
      const Tensors results = body.run(joined(joined(carries, draws), free_));
      if (layout_.every == 0) {
        kept_.add(part(results, layout_.num_carries, results.size() - layout_.num_carries));
      }
      carries = part(results, 0, layout_.num_carries);
      lay_out(carries, *step_);
    }
    own_results(hop_->results(), operands_, carries);
    return carries;
  }

  HopPtr scan() const {
    if (!keeps_carries()) return make_scan(step_, layout_.num_carries, num_draws_, length_, false);
    const int64_t segments = (length_ + layout_.every - 1) / layout_.every;
    return make_checkpointed_scan(step_, layout_.num_carries, num_draws_, length_, false, {layout_.every, segments});
  }

  std::vector<TensorMeta> kept_metas() const {
    if (!keeps_carries()) {
      return part(forward_->results(), layout_.num_carries, forward_->num_results() - layout_.num_carries);
    }
    std::vector<TensorMeta> metas;
    for (size_t i = 0; i < layout_.num_carries; ++i) metas.push_back(stacked(step_->input(i), 0));
    return metas;
  }

  const HopPtr& hop_;
  WhileLayout layout_;
  const Tensors& operands_;
  std::shared_ptr<const Body> step_, drawing_;
  Tensors free_;
  size_t num_draws_ = 0;
  HopPtr shape_, forward_;
  Columns draws_, kept_;
  int64_t length_ = 0;
};

}  // namespace

const WhileOperator& WhileOperator::get() {
  static const auto* const op = [] {
    set_loop_gradient(gradient_of_while_loop);
    return new WhileOperator;
  }();
  return *op;
}

std::vector<TensorMeta> WhileOperator::infer(const Hop& hop) const {
  std::vector<TensorMeta> metas;
  for (size_t i = 0; i < hop.group("init"); ++i) metas.push_back(hop.body(1).input(i));
  return metas;
}

HopFunction WhileOperator::compile(const Hop& hop) const {
  return [bodies = hop.bodies(), metas = hop.results(), layout = WhileLayout(hop)](Tensors&& operands) {
    const Tensors condition_free = layout.condition_free(operands);
    const Tensors free = layout.free(operands);
    Tensors carries = layout.carries(operands);
    lay_out(carries, *bodies[1]);
    while (holds(*bodies[0], carries, condition_free)) {
      carries = bodies[1]->run(joined(std::move(carries), free));
      lay_out(carries, *bodies[1]);
    }
    own_results(metas, operands, carries);
    return carries;
  };
}

std::unique_ptr<Derivative> WhileOperator::differentiate(const Hop& hop, const std::vector<bool>& requires_grad,
                                                         bool /*create_graph*/) const {
  const WhileLayout layout(hop);
  std::vector<TensorMeta> operands;
  for (size_t i = 0; i < layout.num_carries; ++i) operands.push_back(hop.body(1).input(i));
  for (size_t i = 0; i < layout.num_condition_free; ++i) {
    operands.push_back(hop.body(0).input(layout.num_carries + i));
  }
  for (size_t i = 0; i < layout.num_free; ++i) operands.push_back(hop.body(1).input(layout.num_carries + i));
  return replay_derivative(hop, operands, requires_grad,
                           [&] { return reach_of(layout, hop.bodies()[1], requires_grad); });
}

Tensors WhileOperator::call_with_grad(const HopPtr& hop, Tensors&& operands) const {
  if (needs_rules(operands)) return HigherOrderOperator::call_with_grad(hop, std::move(operands));
  return TracedLoop(hop, operands).run();
}

}  // namespace diptych::detail
