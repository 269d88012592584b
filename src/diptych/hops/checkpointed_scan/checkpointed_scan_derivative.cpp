#include "diptych/hops/checkpointed_scan/checkpointed_scan_derivative.h"

#include <map>

#include "diptych/base/list.h"
#include "diptych/graph/rewrite.h"
#include "diptych/hops/call.h"
#include "diptych/hops/checkpointed_scan/checkpointed_scan.h"
#include "diptych/hops/checkpointed_scan/reverse_segments.h"
#include "diptych/hops/scan/scan_derivative.h"

namespace diptych::detail {
namespace {

using Tensors = std::vector<at::Tensor>;

// The body without its stacked outputs.
std::shared_ptr<const Body> carries_only(const Body& body, size_t num_carries) {
  const Graph& graph = *body.graph();
  return std::make_shared<const Body>(std::make_shared<const Graph>(
      extract(graph, "advance", graph.inputs(), graph.input_slots(), part(graph.outputs(), 0, num_carries),
              part(graph.output_slots(), 0, num_carries))));
}

class CheckpointedDerivative final : public Derivative {
 public:
  CheckpointedDerivative(const Hop& hop, const std::vector<bool>& requires_grad)
      : layout_(hop),
        body_(hop.bodies()[0]),
        pair_(detail::settled_pair(*body_, requires_grad, layout_.scan.num_carries, /*create_graph=*/false)) {
    forward_ = make_hop(CheckpointedScanOperator::get(), hop.bodies(), hop.groups(),
                        {{"length", layout_.scan.length},
                         {"reverse", layout_.scan.reverse},
                         {"segment", layout_.segment},
                         {"saved_carries", layout_.carries},
                         {"copies", layout_.copies + 1}});
    requires_grad_ = pair_->differentiable();
    requires_grad_.resize(hop.num_results());
    advance_ = carries_only(*body_, layout_.scan.num_carries);
    with_residuals_ = std::make_shared<const Body>(pair_->forward());
  }

  const HopPtr& forward() const override { return forward_; }
  const std::vector<bool>& requires_grad() const override { return requires_grad_; }
  Tensors backward(const SavedCall& saved, const Tensors& tangents) const override;

 private:
  struct Plan {
    GradientBody body;
    std::shared_ptr<const Body> step;
  };
  const Plan& plan_for(const std::vector<bool>& given) const;

  SegmentLayout layout_;
  std::shared_ptr<const Body> body_, advance_, with_residuals_;
  std::shared_ptr<const BodyPair> pair_;
  HopPtr forward_;
  std::vector<bool> requires_grad_;
  mutable std::mutex mutex_;
  mutable std::map<std::vector<bool>, Plan> plans_;
};

const CheckpointedDerivative::Plan& CheckpointedDerivative::plan_for(const std::vector<bool>& given) const {
  const std::lock_guard lock(mutex_);
  const auto known = plans_.find(given);
  if (known != plans_.end()) return known->second;
  Plan plan{detail::make_gradient_body(*pair_, *body_, layout_.scan.num_carries, layout_.scan.num_slices, given),
            nullptr};
  plan.step = std::make_shared<const Body>(plan.body.graph);
  return plans_.emplace(given, std::move(plan)).first->second;
}

Tensors CheckpointedDerivative::backward(const SavedCall& saved, const Tensors& tangents) const {
  const auto& scan = layout_.scan;
  std::vector<bool> given;
  for (size_t i = 0; i < body_->num_results(); ++i) given.push_back(tangents[i].defined());
  const Plan& plan = plan_for(given);
  Tensors operands;
  for (size_t i = 0; i < scan.num_carries; ++i) operands.push_back(saved.operand(i));
  for (size_t i = 0; i < scan.num_carries; ++i) operands.push_back(saved.residual(i));
  for (size_t i = scan.num_carries; i < scan.num_carries + scan.num_slices + scan.num_free; ++i) {
    operands.push_back(saved.operand(i));
  }
  const Tensors running = detail::first_gradients(plan.body, *body_, scan.num_carries + scan.num_slices, tangents);
  operands.insert(operands.end(), running.begin(), running.end());
  size_t num_tangents = 0;
  for (const auto& source : plan.body.slices) {
    if (source.kind != GradientSource::Kind::kTangent) continue;
    operands.push_back(tangents[source.index]);
    ++num_tangents;
  }
  const auto reversal =
      make_hop(ReverseSegmentsOperator::get(), {advance_, with_residuals_, plan.step},
               {scan.num_carries, scan.num_carries, scan.num_slices, scan.num_free, running.size(), num_tangents},
               {{"length", scan.length},
                {"reverse", scan.reverse},
                {"segment", layout_.segment},
                {"saved_carries", layout_.carries},
                {"slice_sources", detail::sources_attribute(plan.body.slices)},
                {"free_sources", detail::sources_attribute(plan.body.free)}});
  return detail::spread_gradients(plan.body, call(reversal, std::move(operands)), scan);
}

/// The derivative of the plain scan that a checkpointed one amounts to.
class PlainDerivative final : public Derivative {
 public:
  PlainDerivative(const Hop& hop, const std::vector<bool>& requires_grad)
      : plain_(detail::scan_derivative(hop, requires_grad, /*create_graph=*/true)),
        num_results_(hop.body(0).num_results()),
        requires_grad_(plain_->requires_grad()) {
    requires_grad_.resize(hop.num_results());
  }
  const HopPtr& forward() const override { return plain_->forward(); }
  size_t first_residual(const Hop&) const override { return num_results_; }
  const std::vector<bool>& requires_grad() const override { return requires_grad_; }
  Tensors backward(const SavedCall& saved, const Tensors& tangents) const override {
    return plain_->backward(saved, part(tangents, 0, num_results_));
  }

 private:
  std::unique_ptr<Derivative> plain_;
  size_t num_results_;
  std::vector<bool> requires_grad_;
};

}  // namespace

std::unique_ptr<Derivative> checkpointed_scan_derivative(const Hop& hop, const std::vector<bool>& requires_grad,
                                                         bool create_graph) {
  if (create_graph) return std::make_unique<PlainDerivative>(hop, requires_grad);
  return std::make_unique<CheckpointedDerivative>(hop, requires_grad);
}

}  // namespace diptych::detail
