#include "diptych/hops/gradient_body.h"

#include "diptych/graph/rewrite.h"
#include "diptych/hops/graph_edit.h"
#include "diptych/hops/strides.h"

namespace diptych::detail {
namespace {

using Source = GradientSource;

/// Puts the inputs and the outputs of a backward half in the order of a loop.
class Builder {
 public:
  Builder(const BodyPair& pair, const Body& body, size_t num_carries, size_t num_slices, std::vector<bool> given)
      : pair_(pair), body_(body), num_carries_(num_carries), num_slices_(num_slices), given_(std::move(given)) {
    settle_tangents();
    half_ = pair.backward(given_);
  }

  GradientBody build() {
    Rewriter rewriter(half_);
    add_carries(rewriter);
    add_slices(rewriter);
    add_free(rewriter);
    for (const Node& node : half_.nodes()) rewriter.copy_node(node);
    finish(rewriter);
    rewriter.graph().set_name("backward");
    result_.graph = std::make_shared<const Graph>(std::move(rewriter.graph()));
    return std::move(result_);
  }

 private:
  // A carry's tangent is given if the loop's last carry has one, or if a later step's input has a gradient.
  void settle_tangents() {
    for (size_t i = 0; i < given_.size(); ++i) given_[i] = given_[i] && pair_.differentiable()[i];
    for (bool changed = true; changed;) {
      changed = false;
      const auto reached = pair_.reached(given_);
      for (size_t i = 0; i < num_carries_; ++i) {
        if (!reached[i] || given_[i] || !pair_.differentiable()[i]) continue;
        given_[i] = changed = true;
      }
    }
  }

  // Inputs of the half: residuals, then a tangent for each differentiable result.
  Value tangent(size_t result) const {
    size_t position = pair_.residuals().size();
    for (size_t i = 0; i < result; ++i) position += pair_.differentiable()[i] ? 1 : 0;
    return half_.inputs()[position];
  }
  Value gradient(size_t input) const { return half_.outputs()[input]; }
  const std::string& path(size_t input) const { return body_.graph()->input_slots()[input].path; }

  void add_carries(Rewriter& rewriter) {
    for (size_t i = 0; i < num_carries_; ++i) {
      const Slot slot{SlotKind::kArgument, path(i)};
      if (given_[i]) {
        rewriter.add_input(tangent(i), slot);
      } else if (gradient(i)) {
        rewriter.graph().add_input(contiguous(body_.input(i)), slot);  // no step reads it; the last gradient counts
      } else {
        continue;
      }
      result_.carries.push_back(i);
      result_.reached.push_back(static_cast<bool>(gradient(i)));
    }
    const size_t first_free = num_carries_ + num_slices_;
    for (size_t i = first_free; i < body_.num_inputs(); ++i) {
      if (!gradient(i)) continue;
      TensorMeta meta = contiguous(body_.input(i));
      meta.requires_grad = false;
      sums_.push_back(rewriter.graph().add_input(meta, {SlotKind::kArgument, path(i)}));
      result_.sums.push_back(i - first_free);
    }
  }

  void add_slices(Rewriter& rewriter) {
    const auto& residuals = pair_.residuals();
    for (size_t i = 0; i < residuals.size(); ++i) {
      const Slot slot{SlotKind::kArgument, half_.input_slots()[i].path};
      if (!residuals[i].is_input) {
        rewriter.add_input(half_.inputs()[i], slot);
        result_.slices.push_back({Source::Kind::kResidual, residuals[i].index - pair_.num_results()});
      } else if (residuals[i].index < num_carries_ + num_slices_) {
        rewriter.add_input(half_.inputs()[i], slot);
        result_.slices.push_back({Source::Kind::kOperand, residuals[i].index});
      }
    }
    for (size_t i = num_carries_; i < given_.size(); ++i) {
      if (!given_[i]) continue;
      rewriter.add_input(tangent(i), {SlotKind::kArgument, body_.graph()->output_slots()[i].path});
      result_.slices.push_back({Source::Kind::kTangent, i});
    }
  }

  void add_free(Rewriter& rewriter) {
    const auto& residuals = pair_.residuals();
    for (size_t i = 0; i < residuals.size(); ++i) {
      if (!residuals[i].is_input || residuals[i].index < num_carries_ + num_slices_) continue;
      rewriter.add_input(half_.inputs()[i], {SlotKind::kFreeVariable, path(residuals[i].index)});
      result_.free.push_back({Source::Kind::kOperand, residuals[i].index});
    }
  }

  void finish(Rewriter& rewriter) {
    BackwardEmitter emitter(rewriter.graph());
    std::vector<Value> outputs;
    std::vector<Slot> slots;
    const auto add = [&](Value value, size_t input) {
      outputs.push_back(value);
      slots.push_back({SlotKind::kGradient, path(input)});
    };
    for (const size_t carry : result_.carries) {
      add(gradient(carry) ? rewriter[gradient(carry)]
                          : add_filler(rewriter.graph(), body_.input(carry), Filler::kZeros),
          carry);
    }
    for (size_t i = 0; i < sums_.size(); ++i) {
      const size_t input = num_carries_ + num_slices_ + result_.sums[i];
      add(emitter.call("aten.add.Tensor", {sums_[i], rewriter[gradient(input)]}), input);
    }
    for (size_t i = 0; i < num_slices_; ++i) {
      if (!gradient(num_carries_ + i)) continue;
      add(rewriter[gradient(num_carries_ + i)], num_carries_ + i);
      result_.sliced_gradients.push_back(i);
    }
    rewriter.graph().set_outputs(std::move(outputs), std::move(slots));
  }

  const BodyPair& pair_;
  const Body& body_;
  size_t num_carries_;
  size_t num_slices_;
  std::vector<bool> given_;
  Graph half_;
  std::vector<Value> sums_;
  GradientBody result_;
};

}  // namespace

std::shared_ptr<const BodyPair> settled_pair(const Body& body, std::vector<bool> requires_grad, size_t num_carries,
                                             bool create_graph) {
  for (size_t i = 0; i < num_carries; ++i) {
    requires_grad[i] = requires_grad[i] || body.carry_settles_to_require_grad(i, requires_grad, num_carries);
  }
  while (true) {
    auto pair = body.pair(requires_grad, num_carries, create_graph);
    bool changed = false;
    for (size_t i = 0; i < num_carries; ++i) {
      if (!pair->differentiable()[i] || requires_grad[i]) continue;
      requires_grad[i] = changed = true;
    }
    if (!changed) return pair;
  }
}

GradientBody make_gradient_body(const BodyPair& pair, const Body& body, size_t num_carries, size_t num_slices,
                                const std::vector<bool>& given) {
  return Builder(pair, body, num_carries, num_slices, given).build();
}

}  // namespace diptych::detail
