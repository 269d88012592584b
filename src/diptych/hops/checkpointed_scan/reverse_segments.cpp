#include "diptych/hops/checkpointed_scan/reverse_segments.h"

// Note [Reversing a checkpointed scan]: the backward goes through the segments from the last to the first. For each
// segment it needs the carry in front of it, which was kept or is found by running the body from the last kept carry
// on; treeverse says which carries to keep. The segment is then run forward with residuals, and backward.
#include <map>

#include "diptych/base/error.h"
#include "diptych/base/list.h"
#include "diptych/hops/checkpointed_scan/checkpointed_scan.h"
#include "diptych/hops/strides.h"
#include "diptych/ops/gradient_source.h"
#include "diptych/ops/treeverse.h"

namespace diptych::detail {
namespace {

using Tensors = std::vector<at::Tensor>;

struct ReverseLayout {
  explicit ReverseLayout(const Hop& hop);
  int64_t length, segment, carries;
  bool reverse;
  size_t num_carries, num_slices, num_free, num_running, num_tangents;
  std::vector<GradientSource> slices, free;
  std::vector<size_t> tangents;  ///< the stack that each tangent operand belongs to

  int64_t begin(int64_t index) const { return index * segment; }
  int64_t end(int64_t index) const { return std::min(length, (index + 1) * segment); }
  int64_t num_segments() const { return (length + segment - 1) / segment; }
};

ReverseLayout::ReverseLayout(const Hop& hop)
    : length(hop.attributes().integer("length")),
      segment(hop.attributes().integer("segment")),
      carries(hop.attributes().integer("saved_carries")),
      reverse(hop.attributes().flag("reverse")),
      num_carries(hop.group("init")),
      num_slices(hop.group("xs")),
      num_free(hop.group("free")),
      num_running(hop.group("running")),
      num_tangents(hop.group("tangents")),
      slices(gradient_sources(hop.attributes().integers("slice_sources"))),
      free(gradient_sources(hop.attributes().integers("free_sources"))) {
  for (const auto& source : slices) {
    if (source.kind == GradientSource::Kind::kTangent) tangents.push_back(source.index);
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
    num_residuals += source.kind == GradientSource::Kind::kResidual ? 1 : 0;
  }
  Tensors read, constant;
  const auto take = [&](const GradientSource& source) -> at::Tensor {
    using Kind = GradientSource::Kind;
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

}  // namespace

const ReverseSegmentsOperator& ReverseSegmentsOperator::get() {
  static const auto* const op = new ReverseSegmentsOperator;
  return *op;
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

std::unique_ptr<Derivative> ReverseSegmentsOperator::differentiate(const Hop&, const std::vector<bool>&, bool) const {
  throw InternalError("a checkpointed scan's backward was differentiated, expected a plain scan's");
}

}  // namespace diptych::detail
