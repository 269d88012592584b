#include "diptych/hops/cond/cond_derivative.h"

// The backward of a branch is a branch again. Where one body saves a value or returns a gradient, the others return a
// filler.
#include <map>

#include "diptych/graph/rewrite.h"
#include "diptych/hops/call.h"
#include "diptych/hops/cond/cond_operator.h"
#include "diptych/hops/graph_edit.h"
#include "diptych/hops/strides.h"

namespace diptych::detail {
namespace {

using Tensors = std::vector<at::Tensor>;
using Bodies = std::vector<std::shared_ptr<const Body>>;
using Pairs = std::vector<std::shared_ptr<const BodyPair>>;

// What a backward argument is: an operand, a residual or a tangent of the forward.
struct ArgumentSource {
  enum class Kind : uint8_t { kOperand, kResidual, kTangent } kind = Kind::kOperand;
  size_t index = 0;
  bool operator==(const ArgumentSource&) const = default;
};

class BranchDerivative final : public Derivative {
 public:
  BranchDerivative(const Hop& hop, const std::vector<bool>& requires_grad, bool create_graph)
      : op_(hop.op()), attributes_(hop.attributes()), layout_(hop), bodies_(hop.bodies()) {
    for (size_t i = 0; i < bodies_.size(); ++i) {
      std::vector<bool> inputs;
      for (size_t k = 0; k < bodies_[i]->num_inputs(); ++k) inputs.push_back(requires_grad[layout_.operand(i, k)]);
      pairs_.push_back(bodies_[i]->pair(inputs, 0, create_graph));
    }
    requires_grad_.resize(layout_.num_results);
    for (const auto& pair : pairs_) {
      for (size_t i = 0; i < requires_grad_.size(); ++i) {
        requires_grad_[i] = requires_grad_[i] || pair->differentiable()[i];
      }
    }
    make_forward(hop);
  }

  const HopPtr& forward() const override { return forward_; }
  const std::vector<bool>& requires_grad() const override { return requires_grad_; }
  Tensors backward(const SavedCall& saved, const Tensors& tangents) const override;

 private:
  struct Plan {
    HopPtr hop;
    std::vector<ArgumentSource> arguments;
    std::vector<size_t> wanted;  // operands that get a gradient, in order
  };
  void make_forward(const Hop& hop);
  const Plan& plan_for(const std::vector<bool>& given) const;
  Plan make_plan(const std::vector<bool>& given) const;
  std::vector<std::optional<ArgumentSource>> input_sources(size_t body, const std::vector<bool>& given) const;
  Graph finish_half(const Graph& half, const std::vector<std::optional<ArgumentSource>>& sources, size_t body,
                    const Plan& plan) const;
  TensorMeta meta_of(const ArgumentSource& source) const;
  const TensorMeta& operand_meta(size_t operand) const;

  const HigherOrderOperator& op_;
  HopAttributes attributes_;
  detail::BranchLayout layout_;
  Bodies bodies_;
  Pairs pairs_;
  std::vector<size_t> first_residual_;  // per body, among all residuals
  HopPtr forward_;
  std::vector<bool> requires_grad_;
  mutable std::mutex mutex_;
  mutable std::map<std::vector<bool>, Plan> plans_;
};

void BranchDerivative::make_forward(const Hop& hop) {
  Bodies forwards;
  for (size_t i = 0; i < pairs_.size(); ++i) {
    Graph forward = *pairs_[i]->forward();
    size_t position = layout_.num_results;
    for (size_t k = 0; k < pairs_.size(); ++k) {
      if (i == 0) first_residual_.push_back(position - layout_.num_results);
      if (k != i) {
        std::vector<TensorMeta> residuals;
        const Graph& other = *pairs_[k]->forward();
        for (size_t r = layout_.num_results; r < other.outputs().size(); ++r) {
          residuals.push_back(other.meta(other.outputs()[r]));
        }
        forward = detail::insert_outputs(forward, position, residuals, detail::Filler::kEmpty);
      }
      position += pairs_[k]->num_new_residuals();
    }
    forwards.push_back(std::make_shared<const Body>(std::make_shared<const Graph>(std::move(forward))));
  }
  forward_ = std::make_shared<const Hop>(op_, std::move(forwards), hop.groups(), attributes_);
}

// What each input of a body's backward half is; nothing for a tangent that is not given, which nobody reads.
std::vector<std::optional<ArgumentSource>> BranchDerivative::input_sources(size_t body,
                                                                           const std::vector<bool>& given) const {
  const BodyPair& pair = *pairs_[body];
  std::vector<std::optional<ArgumentSource>> sources;
  for (const auto& residual : pair.residuals()) {
    if (residual.is_input) {
      sources.push_back(ArgumentSource{ArgumentSource::Kind::kOperand, layout_.operand(body, residual.index)});
    } else {
      sources.push_back(ArgumentSource{ArgumentSource::Kind::kResidual,
                                       first_residual_[body] + residual.index - layout_.num_results});
    }
  }
  for (size_t i = 0; i < layout_.num_results; ++i) {
    if (!pair.differentiable()[i]) continue;
    sources.push_back(given[i] ? std::optional(ArgumentSource{ArgumentSource::Kind::kTangent, i}) : std::nullopt);
  }
  return sources;
}

const TensorMeta& BranchDerivative::operand_meta(size_t operand) const {
  size_t body = 0;
  while (body + 1 < bodies_.size() && operand >= layout_.first_free[body + 1]) ++body;
  const size_t input = operand < layout_.first_free[0] ? operand - layout_.num_choosers
                                                       : operand - layout_.first_free[body] + layout_.num_arguments;
  return bodies_[body]->input(input);
}

TensorMeta BranchDerivative::meta_of(const ArgumentSource& source) const {
  if (source.kind == ArgumentSource::Kind::kOperand) return operand_meta(source.index);
  const size_t result = source.index + (source.kind == ArgumentSource::Kind::kResidual ? layout_.num_results : 0);
  return forward_->results()[result];
}

// One body's half with the arguments and the gradients of all.
Graph BranchDerivative::finish_half(const Graph& half, const std::vector<std::optional<ArgumentSource>>& sources,
                                    size_t body, const Plan& plan) const {
  Rewriter rewriter(half);
  for (const ArgumentSource& argument : plan.arguments) {
    const Slot slot{SlotKind::kArgument, "saved"};
    const auto found = std::find(sources.begin(), sources.end(), std::optional(argument));
    if (found == sources.end()) {
      rewriter.graph().add_input(meta_of(argument), slot);
    } else {
      rewriter.add_input(half.inputs()[found - sources.begin()], slot);
    }
  }
  for (const Node& node : half.nodes()) rewriter.copy_node(node);
  std::vector<Value> outputs;
  std::vector<Slot> slots;
  for (const size_t operand : plan.wanted) {
    Value gradient;
    for (size_t i = 0; i < half.outputs().size(); ++i) {
      if (layout_.operand(body, i) == operand && half.outputs()[i]) gradient = rewriter[half.outputs()[i]];
    }
    if (!gradient) {
      gradient = detail::add_filler(rewriter.graph(), contiguous(operand_meta(operand)), detail::Filler::kZeros);
    }
    outputs.push_back(gradient);
    slots.push_back({SlotKind::kGradient, "gradient"});
  }
  rewriter.graph().set_outputs(std::move(outputs), std::move(slots));
  rewriter.graph().set_name("backward");
  return std::move(rewriter.graph());
}

BranchDerivative::Plan BranchDerivative::make_plan(const std::vector<bool>& given) const {
  Plan plan;
  std::vector<Graph> halves;
  std::vector<std::vector<std::optional<ArgumentSource>>> sources;
  std::vector<bool> is_wanted(layout_.first_free.back() + layout_.num_free.back());
  for (size_t body = 0; body < bodies_.size(); ++body) {
    std::vector<bool> own = given;
    for (size_t i = 0; i < own.size(); ++i) own[i] = own[i] && pairs_[body]->differentiable()[i];
    halves.push_back(pairs_[body]->backward(own));
    sources.push_back(input_sources(body, own));
    for (const auto& source : sources.back()) {
      if (source && std::find(plan.arguments.begin(), plan.arguments.end(), *source) == plan.arguments.end()) {
        plan.arguments.push_back(*source);
      }
    }
    for (size_t i = 0; i < halves.back().outputs().size(); ++i) {
      if (halves.back().outputs()[i]) is_wanted[layout_.operand(body, i)] = true;
    }
  }
  for (size_t i = 0; i < is_wanted.size(); ++i) {
    if (is_wanted[i]) plan.wanted.push_back(i);
  }
  if (plan.wanted.empty()) return plan;
  Bodies bodies;
  for (size_t body = 0; body < bodies_.size(); ++body) {
    bodies.push_back(std::make_shared<const Body>(
        std::make_shared<const Graph>(finish_half(halves[body], sources[body], body, plan))));
  }
  std::vector<size_t> groups(layout_.num_choosers, 1);
  groups.push_back(plan.arguments.size());
  groups.resize(groups.size() + bodies_.size());
  plan.hop = std::make_shared<const Hop>(op_, std::move(bodies), std::move(groups), attributes_);
  return plan;
}

const BranchDerivative::Plan& BranchDerivative::plan_for(const std::vector<bool>& given) const {
  const std::lock_guard lock(mutex_);
  const auto known = plans_.find(given);
  return known != plans_.end() ? known->second : plans_.emplace(given, make_plan(given)).first->second;
}

Tensors BranchDerivative::backward(const SavedCall& saved, const Tensors& tangents) const {
  Tensors gradients(layout_.first_free.back() + layout_.num_free.back());
  std::vector<bool> given;
  for (const at::Tensor& tangent : tangents) given.push_back(tangent.defined());
  const Plan& plan = plan_for(given);
  if (!plan.hop) return gradients;
  Tensors operands;
  for (size_t i = 0; i < layout_.num_choosers; ++i) operands.push_back(saved.operand(i));
  for (const ArgumentSource& source : plan.arguments) {
    operands.push_back(source.kind == ArgumentSource::Kind::kOperand    ? saved.operand(source.index)
                       : source.kind == ArgumentSource::Kind::kResidual ? saved.residual(source.index)
                                                                        : tangents[source.index]);
  }
  const auto found = call(plan.hop, std::move(operands));
  for (size_t i = 0; i < plan.wanted.size(); ++i) gradients[plan.wanted[i]] = found[i];
  return gradients;
}

}  // namespace

std::unique_ptr<Derivative> branch_derivative(const Hop& hop, const std::vector<bool>& requires_grad,
                                              bool create_graph) {
  return std::make_unique<BranchDerivative>(hop, requires_grad, create_graph);
}

}  // namespace diptych::detail
