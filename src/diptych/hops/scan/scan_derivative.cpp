#include "diptych/hops/scan/scan_derivative.h"

// The backward of a scan is a scan in the other direction: gradients of carries and sums of gradients of what every
// step reads are its carries; residuals and gradients of stacks are its slices; gradients of slices are its stacks.
#include "diptych/hops/call.h"

#include <map>

#include "diptych/base/check.h"
#include "diptych/hops/strides.h"

namespace diptych::detail {
namespace {

using Tensors = std::vector<at::Tensor>;

class ScanDerivative final : public Derivative {
 public:
  ScanDerivative(const Hop& scan, const std::vector<bool>& requires_grad, bool create_graph)
      : layout_(scan),
        body_(scan.bodies()[0]),
        pair_(detail::settled_pair(*body_, requires_grad, layout_.num_carries, create_graph)) {
    DIPTYCH_ASSERT(layout_.fronts.empty(), "a scan whose stacks have a front was differentiated");
    forward_ =
        make_scan(std::make_shared<const Body>(pair_->forward()), layout_.num_carries, layout_.num_slices, layout_);
    requires_grad_ = pair_->differentiable();
    if (layout_.length > 0) return;
    for (size_t i = 0; i < requires_grad_.size(); ++i) {
      requires_grad_[i] = i < layout_.num_carries && requires_grad[i];
    }
  }

  const HopPtr& forward() const override { return forward_; }
  const std::vector<bool>& requires_grad() const override { return requires_grad_; }
  Tensors backward(const SavedCall& saved, const Tensors& tangents) const override;

 private:
  struct Plan {
    detail::GradientBody body;
    HopPtr scan;
  };
  const Plan& plan_for(const std::vector<bool>& given) const;
  Tensors operands_for(const Plan& plan, const SavedCall& saved, const Tensors& tangents) const;

  detail::ScanLayout layout_;
  std::shared_ptr<const Body> body_;
  std::shared_ptr<const BodyPair> pair_;
  HopPtr forward_;
  std::vector<bool> requires_grad_;
  mutable std::mutex mutex_;
  mutable std::map<std::vector<bool>, Plan> plans_;
};

const ScanDerivative::Plan& ScanDerivative::plan_for(const std::vector<bool>& given) const {
  const std::lock_guard lock(mutex_);
  const auto known = plans_.find(given);
  if (known != plans_.end()) return known->second;
  Plan plan{detail::make_gradient_body(*pair_, *body_, layout_.num_carries, layout_.num_slices, given), nullptr};
  ScanAttributes attributes = layout_;
  attributes.reverse = !attributes.reverse;
  plan.scan = make_scan(std::make_shared<const Body>(plan.body.graph), plan.body.carries.size() + plan.body.sums.size(),
                        plan.body.slices.size(), attributes);
  return plans_.emplace(given, std::move(plan)).first->second;
}

Tensors ScanDerivative::operands_for(const Plan& plan, const SavedCall& saved, const Tensors& tangents) const {
  const auto& body = plan.body;
  Tensors operands = detail::first_gradients(body, *body_, layout_.num_carries + layout_.num_slices, tangents);
  const auto take = [&](const detail::GradientSource& source) {
    using Kind = detail::GradientSource::Kind;
    if (source.kind == Kind::kTangent) return tangents[source.index];
    return source.kind == Kind::kOperand ? saved.operand(source.index) : saved.residual(source.index);
  };
  for (const auto& source : body.slices) operands.push_back(take(source));
  for (const auto& source : body.free) operands.push_back(take(source));
  return operands;
}

Tensors ScanDerivative::backward(const SavedCall& saved, const Tensors& tangents) const {
  if (layout_.length == 0) {
    Tensors gradients(layout_.num_carries + layout_.num_slices + layout_.num_free);
    for (size_t i = 0; i < layout_.num_carries; ++i) gradients[i] = tangents[i];
    return gradients;
  }
  std::vector<bool> given;
  for (const at::Tensor& tangent : tangents) given.push_back(tangent.defined());
  const Plan& plan = plan_for(given);
  return detail::spread_gradients(plan.body, call(plan.scan, operands_for(plan, saved, tangents)), layout_);
}

}  // namespace

Tensors first_gradients(const GradientBody& body, const Body& forward, size_t num_loop_inputs,
                        const Tensors& tangents) {
  Tensors first;
  for (const size_t carry : body.carries) {
    first.push_back(tangents[carry].defined() ? tangents[carry] : zeros_like_meta(forward.input(carry)));
  }
  for (const size_t sum : body.sums) first.push_back(zeros_like_meta(forward.input(num_loop_inputs + sum)));
  return first;
}

Tensors spread_gradients(const GradientBody& body, const Tensors& results, const ScanLayout& layout) {
  Tensors gradients(layout.num_carries + layout.num_slices + layout.num_free);
  auto next = results.begin();
  for (size_t i = 0; i < body.carries.size(); ++i, ++next) {
    if (body.reached[i]) gradients[body.carries[i]] = *next;
  }
  for (const size_t sum : body.sums) gradients[layout.num_carries + layout.num_slices + sum] = *next++;
  for (const size_t slice : body.sliced_gradients) gradients[layout.num_carries + slice] = *next++;
  return gradients;
}

std::unique_ptr<Derivative> scan_derivative(const Hop& scan, const std::vector<bool>& requires_grad,
                                            bool create_graph) {
  return std::make_unique<ScanDerivative>(scan, requires_grad, create_graph);
}

}  // namespace diptych::detail
