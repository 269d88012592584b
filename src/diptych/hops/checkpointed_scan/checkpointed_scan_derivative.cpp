// Note [Reversing a checkpointed scan]: the backward goes through the segments from the last to the first. For each it
// needs the carry in front of it, which it has kept or finds by running the body on from the last one kept; treeverse
// says which to keep. The segment is then run forward with residuals, and backward.
#include <map>

#include "diptych/base/error.h"
#include "diptych/base/list.h"
#include "diptych/graph/rewrite.h"
#include "diptych/hops/checkpointed_scan/checkpointed_scan.h"
#include "diptych/hops/checkpointed_scan/treeverse.h"
#include "diptych/hops/scan/scan_derivative.h"
#include "diptych/hops/strides.h"

namespace diptych {
namespace {

using Tensors = std::vector<at::Tensor>;
using detail::GradientBody;
using detail::part;
using detail::SegmentLayout;

// The body without its stacked outputs.
std::shared_ptr<const Body> carries_only(const Body& body, size_t num_carries) {
  const Graph& graph = *body.graph();
  return std::make_shared<const Body>(std::make_shared<const Graph>(
      extract(graph, "advance", graph.inputs(), graph.input_slots(), part(graph.outputs(), 0, num_carries),
              part(graph.output_slots(), 0, num_carries))));
}

/// hop.reverse_segments: the backward of a checkpointed scan. Groups: first carries, stacks of kept carries, slices,
/// free operands, gradients of the last carries and first sums, tangents of stacks. Bodies: the step's carries alone,
/// the step with residuals, the backward step. Constants: those of the forward, then what GradientBody knows, as lists
/// of ints.
class ReverseSegmentsOperator final : public HigherOrderOperator {
 public:
  ReverseSegmentsOperator() : HigherOrderOperator("reverse_segments", 3) {}
  static const ReverseSegmentsOperator& get() {
    static const auto* const op = new ReverseSegmentsOperator;
    return *op;
  }
  std::vector<TensorMeta> infer(const Hop& hop) const override;
  HopFunction compile(const Hop& hop) const override;
  std::unique_ptr<Derivative> differentiate(const Hop&, const std::vector<bool>&, bool) const override {
    throw InternalError("a checkpointed scan's backward was differentiated, expected a plain scan's");
  }
};

struct ReverseLayout {
  explicit ReverseLayout(const Hop& hop);
  int64_t length, segment, carries;
  bool reverse;
  size_t num_carries, num_slices, num_free, num_running, num_tangents;
  std::vector<GradientBody::Source> slices, free;
  std::vector<size_t> tangents;  ///< the stack that each tangent operand is of

  int64_t begin(int64_t index) const { return index * segment; }
  int64_t end(int64_t index) const { return std::min(length, (index + 1) * segment); }
  int64_t num_segments() const { return (length + segment - 1) / segment; }
};

c10::List<int64_t> encode(const std::vector<GradientBody::Source>& sources) {
  c10::List<int64_t> list;
  for (const auto& source : sources) {
    list.push_back(static_cast<int64_t>(source.kind));
    list.push_back(static_cast<int64_t>(source.index));
  }
  return list;
}

std::vector<GradientBody::Source> decode(const c10::IValue& value) {
  const auto list = value.toIntVector();
  std::vector<GradientBody::Source> sources;
  for (size_t i = 0; i + 1 < list.size(); i += 2) {
    sources.push_back({static_cast<GradientBody::Source::Kind>(list[i]), static_cast<size_t>(list[i + 1])});
  }
  return sources;
}

ReverseLayout::ReverseLayout(const Hop& hop)
    : length(hop.constants().at(0).toInt()),
      segment(hop.constants().at(2).toInt()),
      carries(hop.constants().at(3).toInt()),
      reverse(hop.constants().at(1).toBool()),
      num_carries(hop.groups().at(0)),
      num_slices(hop.groups().at(2)),
      num_free(hop.groups().at(3)),
      num_running(hop.groups().at(4)),
      num_tangents(hop.groups().at(5)),
      slices(decode(hop.constants().at(4))),
      free(decode(hop.constants().at(5))) {
  for (const auto& source : slices) {
    if (source.kind == GradientBody::Source::Kind::kTangent) tangents.push_back(source.index);
  }
}

/// One run of the reversal.
class Reversal {
 public:
  struct Runners {
    std::shared_ptr<const detail::SegmentRunner> advance, forward, backward;
  };
  Reversal(const ReverseLayout& layout, const Runners& runners, const std::vector<TensorMeta>& results,
           const Tensors& operands)
      : layout_(layout), runners_(runners) {
    size_t next = 0;
    const auto take = [&](size_t count) {
      next += count;
      return part(operands, next - count, count);
    };
    first_ = take(layout.num_carries);
    const Tensors kept = take(layout.num_carries);
    slices_ = take(layout.num_slices);
    free_ = take(layout.num_free);
    running_ = take(layout.num_running);
    tangents_ = take(layout.num_tangents);
    const auto stops = detail::kept_in_forward(layout.num_segments(), layout.carries - 1);
    for (size_t i = 0; i < stops.size(); ++i) {
      for (const at::Tensor& stack : kept) from_forward_[stops[i]].push_back(stack[static_cast<int64_t>(i)]);
    }
    for (size_t i = layout.num_running; i < results.size(); ++i) stacks_.push_back(empty_like_meta(results[i]));
  }

  Tensors run() {
    reverse(0, layout_.num_segments(), first_, layout_.carries - 1);
    Tensors results = std::move(running_);
    results.insert(results.end(), stacks_.begin(), stacks_.end());
    return results;
  }

 private:
  void reverse(int64_t from, int64_t to, const Tensors& carries, int64_t spare);
  void process(int64_t index, const Tensors& carries);
  Tensors advance(int64_t from, int64_t to, Tensors carries) const;

  const ReverseLayout& layout_;
  const Runners& runners_;
  Tensors first_, slices_, free_, running_, tangents_, stacks_;
  std::map<int64_t, Tensors> from_forward_;
};

Tensors Reversal::advance(int64_t from, int64_t to, Tensors carries) const {
  for (int64_t i = from; i < to; ++i) {
    const int64_t count = layout_.end(i) - layout_.begin(i);
    const int64_t place = detail::slices_begin(layout_.length, layout_.reverse, layout_.begin(i), layout_.end(i));
    carries = runners_.advance->run(carries, detail::cut(slices_, place, count), free_, count);
  }
  return carries;
}

void Reversal::reverse(int64_t from, int64_t to, const Tensors& carries, int64_t spare) {
  if (to - from == 1) return process(from, carries);
  if (spare == 0) {
    for (int64_t i = to; i-- > from;) process(i, advance(from, i, carries));
    return;
  }
  const int64_t middle = from + detail::first_part(to - from, spare);
  {
    const auto known = from_forward_.find(middle);
    Tensors kept = known != from_forward_.end() ? known->second : advance(from, middle, carries);
    if (known != from_forward_.end()) from_forward_.erase(known);
    reverse(middle, to, kept, spare - 1);
  }
  reverse(from, middle, carries, spare);
}

void Reversal::process(int64_t index, const Tensors& carries) {
  const int64_t count = layout_.end(index) - layout_.begin(index);
  const int64_t place = detail::slices_begin(layout_.length, layout_.reverse, layout_.begin(index), layout_.end(index));
  const Tensors slices = detail::cut(slices_, place, count);
  const Tensors forward = runners_.forward->run(carries, slices, free_, count);
  const size_t num_results = forward.size();
  size_t num_residuals = 0;
  for (const auto& source : layout_.slices) {
    num_residuals += source.kind == GradientBody::Source::Kind::kResidual ? 1 : 0;
  }
  Tensors read, constant;
  const auto take = [&](const GradientBody::Source& source) -> at::Tensor {
    using Kind = GradientBody::Source::Kind;
    if (source.kind == Kind::kResidual) return forward[num_results - num_residuals + source.index];
    if (source.kind == Kind::kOperand) {
      const size_t slice = source.index - layout_.num_carries;
      return slice < layout_.num_slices ? slices[slice] : free_[slice - layout_.num_slices];
    }
    const auto found = std::find(layout_.tangents.begin(), layout_.tangents.end(), source.index);
    return tangents_[found - layout_.tangents.begin()].narrow(0, place, count);
  };
  for (const auto& source : layout_.slices) read.push_back(take(source));
  for (const auto& source : layout_.free) constant.push_back(take(source));
  Tensors got = runners_.backward->run(running_, read, constant, count);
  for (size_t i = 0; i < stacks_.size(); ++i) {
    stacks_[i].narrow(0, place, count).copy_(got[layout_.num_running + i]);
  }
  got.resize(layout_.num_running);
  running_ = std::move(got);
}

std::vector<TensorMeta> ReverseSegmentsOperator::infer(const Hop& hop) const {
  const ReverseLayout layout(hop);
  const Body& body = hop.body(2);
  std::vector<TensorMeta> metas;
  for (size_t i = 0; i < layout.num_running; ++i) metas.push_back(body.input(i));
  for (size_t i = layout.num_running; i < body.num_results(); ++i) {
    metas.push_back(stacked(body.result(i), layout.length));
  }
  return metas;
}

HopFunction ReverseSegmentsOperator::compile(const Hop& hop) const {
  const ReverseLayout layout(hop);
  const Reversal::Runners runners{
      std::make_shared<detail::SegmentRunner>(hop.bodies()[0], layout.num_carries, layout.num_slices, layout.reverse),
      std::make_shared<detail::SegmentRunner>(hop.bodies()[1], layout.num_carries, layout.num_slices, layout.reverse),
      std::make_shared<detail::SegmentRunner>(hop.bodies()[2], layout.num_running, layout.slices.size(),
                                              !layout.reverse)};
  return [layout, runners, metas = hop.results()](Tensors&& operands) {
    Tensors results = Reversal(layout, runners, metas, operands).run();
    own_results(metas, operands, results);
    return results;
  };
}

class CheckpointedDerivative final : public Derivative {
 public:
  CheckpointedDerivative(const Hop& hop, const std::vector<bool>& requires_grad)
      : layout_(hop),
        body_(hop.bodies()[0]),
        pair_(detail::settled_pair(*body_, requires_grad, layout_.scan.num_carries, /*create_graph=*/false)) {
    auto constants = hop.constants();
    constants[4] = layout_.copies + 1;
    forward_ = std::make_shared<const Hop>(CheckpointedScanOperator::get(), hop.bodies(), hop.groups(), constants);
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
    if (source.kind != GradientBody::Source::Kind::kTangent) continue;
    operands.push_back(tangents[source.index]);
    ++num_tangents;
  }
  const auto reversal = std::make_shared<const Hop>(
      ReverseSegmentsOperator::get(), std::vector<std::shared_ptr<const Body>>{advance_, with_residuals_, plan.step},
      std::vector<size_t>{scan.num_carries, scan.num_carries, scan.num_slices, scan.num_free, running.size(),
                          num_tangents},
      std::vector<c10::IValue>{scan.length, scan.reverse, layout_.segment, layout_.carries, encode(plan.body.slices),
                               encode(plan.body.free)});
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

const HigherOrderOperator& detail::reverse_segments() { return ReverseSegmentsOperator::get(); }

std::unique_ptr<Derivative> CheckpointedScanOperator::differentiate(const Hop& hop,
                                                                    const std::vector<bool>& requires_grad,
                                                                    bool create_graph) const {
  if (create_graph) return std::make_unique<PlainDerivative>(hop, requires_grad);
  return std::make_unique<CheckpointedDerivative>(hop, requires_grad);
}

}  // namespace diptych
