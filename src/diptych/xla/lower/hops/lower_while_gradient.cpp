// The gradient of a loop of unknown length, in memory of known size.
//
// Note [Reversing a loop of unknown length]: one run of the loop counts its steps, and another keeps the carries in
// front of kNumPlaces equal parts of them. The parts are then reversed from the last to the first: each is run again
// and its carries kept in the same way, so that parts of up to kNumPlaces steps are kept step by step. What is longer
// than that after kNumLevels rounds, in loops of more than kNumPlaces^kNumLevels steps, is run from its first carry for
// each step.
#include <algorithm>
#include <optional>

#include "diptych/base/list.h"
#include "diptych/graph/hop_attributes.h"
#include "diptych/ops/loop_gradient.h"
#include "diptych/xla/hlo/lower_body.h"
#include "diptych/xla/hlo/lowering_loops.h"

namespace diptych::detail {
namespace {

using Hlos = std::vector<Hlo>;

constexpr int64_t kNumPlaces = 64;
constexpr int64_t kNumLevels = 2;

class WhileGradient {
 public:
  WhileGradient(const Lowering& node, LoopGradient gradient)
      : node_(node),
        loop_(hop_body(node, 0).nodes()[0]),
        step_(*loop_.subgraphs[1]),
        gradient_(std::move(gradient)),
        num_carries_(group_of(loop_, "init").size()) {}

  Hlos lower() {
    HloWriter& writer = node_.writer();
    const auto inputs = hop_group(node_, "inputs");
    const size_t num_asked = group_of(loop_, "condition_free").size(), first_free = num_carries_ + num_asked;
    const auto init = part(inputs, 0, num_carries_), free = part(inputs, first_free, inputs.size() - first_free);
    const Hlo count = count_steps(init, part(inputs, num_carries_, num_asked), free);
    const auto tangents = tangents_by_carry();
    Hlos running;
    for (const size_t carry : gradient_.carries) running.push_back(tangents[carry].value_or(zeros_like(init[carry])));
    for (const size_t sum : gradient_.sums) running.push_back(zeros_like(free[sum]));
    const auto found = reverse(writer, kNumLevels, {number(writer, 0), count}, init, running, free);
    // Without a step a carry is what it was, also one that no step passes on.
    const Hlo has_no_step = writer.compare("EQ", count, number(writer, 0));
    Hlos gradients;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Hlo zeros = zeros_like(inputs[i]);
      const bool is_tangent = i < num_carries_ && tangents[i];
      gradients.push_back(is_tangent ? writer.select(writer.broadcast_to(has_no_step, zeros.sizes), *tangents[i], zeros)
                                     : zeros);
    }
    for (size_t i = 0; i < gradient_.carries.size(); ++i) gradients[gradient_.carries[i]] = found[i];
    for (size_t i = 0; i < gradient_.sums.size(); ++i)
      gradients[first_free + gradient_.sums[i]] = found[gradient_.carries.size() + i];
    return wanted_of(gradients);
  }

 private:
  /// Steps `begin` to `end`.
  struct Range {
    Hlo begin, end;
  };

  static Hlo number(HloWriter& writer, int64_t value) { return writer.constant(value, at::kLong); }
  Hlo zeros_like(const Hlo& value) const { return node_.writer().constant(0, value.dtype, value.sizes); }

  std::vector<std::optional<Hlo>> tangents_by_carry() const {
    const auto tangents = hop_group(node_, "tangents");
    const auto given = HopAttributes::of(node_.node()).flags("given");
    std::vector<std::optional<Hlo>> by_carry(given.size());
    size_t next = 0;
    for (size_t i = 0; i < given.size(); ++i) {
      if (given[i]) by_carry[i] = tangents[next++];
    }
    return by_carry;
  }

  Hlos wanted_of(const Hlos& gradients) const {
    const auto wanted = HopAttributes::of(node_.node()).flags("wanted");
    Hlos results;
    for (size_t i = 0; i < wanted.size(); ++i) {
      if (wanted[i]) results.push_back(gradients[i]);
    }
    return results;
  }

  Hlo count_steps(const Hlos& init, const Hlos& asked, const Hlos& free) const {
    HloWriter& writer = node_.writer();
    const auto all = [](std::span<const Hlo> values) { return Hlos(values.begin(), values.end()); };
    const auto condition = [&](HloWriter& inner, std::span<const Hlo> values) -> Hlos {
      const auto inputs = part(all(values), 1, num_carries_ + asked.size());
      return {predicate(inner, lower_body(inner, *loop_.subgraphs[0], inputs)[0])};
    };
    const auto advance_one = [&](HloWriter& inner, std::span<const Hlo> values) {
      const Hlos state = all(values);
      const auto unchanged = part(state, 1 + num_carries_, asked.size() + free.size());
      const auto next =
          lower_body(inner, step_, joined(part(state, 1, num_carries_), part(unchanged, asked.size(), free.size())));
      return joined(joined({inner.binary("add", state[0], number(inner, 1))}, next), unchanged);
    };
    return writer.while_loop(joined(joined(joined({number(writer, 0)}, init), asked), free), condition, advance_one)[0];
  }

  Hlos advance(HloWriter& writer, const Range& range, const Hlos& carries, const Hlos& free) const {
    const auto step = [&](HloWriter& inner, const Hlo&, const Hlos& now, const Hlos& outside) {
      return lower_body(inner, step_, joined(now, outside));
    };
    return counted_loop(writer, range.begin, range.end, carries, free, step);
  }

  // Takes the gradients behind a range of steps, whose first carries are known, to those in front of it.
  Hlos reverse(HloWriter& writer, int64_t level, const Range& range, const Hlos& carries, const Hlos& gradients,
               const Hlos& free) const {
    if (level == 0) return reverse_steps(writer, range, carries, gradients, free);
    const Hlo one = number(writer, 1), most = number(writer, kNumPlaces - 1), places = number(writer, kNumPlaces);
    const auto rounded_up = [&](const Hlo& count, const Hlo& less, const Hlo& by) {
      return writer.binary("divide", writer.binary("add", count, less), by);
    };
    const Hlo count = writer.binary("subtract", range.end, range.begin);
    const Hlo size = writer.binary("maximum", rounded_up(count, most, places), one);
    const Hlo num_parts = rounded_up(count, writer.binary("subtract", size, one), size);
    const Hlos bounds{range.begin, range.end, size, num_parts};
    const Hlos kept = keep(writer, bounds, carries, free);
    const auto reverse_part = [&](HloWriter& inner, const Hlo& index, const Hlos& now, const Hlos& outside) {
      const Hlo last = inner.binary("subtract", outside[3], number(inner, 1));
      const Hlo place = inner.binary("subtract", last, index);
      Hlos first;
      for (size_t i = 0; i < num_carries_; ++i)
        first.push_back(read_rows(inner, outside[bounds.size() + i], place, 1, carries[i].sizes));
      const auto outer_free = part(outside, bounds.size() + num_carries_, free.size());
      return reverse(inner, level - 1, part_of(inner, outside, place), first, now, outer_free);
    };
    return counted_loop(writer, number(writer, 0), num_parts, gradients, joined(joined(bounds, kept), free),
                        reverse_part);
  }

  // Returns the carries in front of each part, in stacks.
  Hlos keep(HloWriter& writer, const Hlos& bounds, const Hlos& carries, const Hlos& free) const {
    Hlos state = carries;
    for (const Hlo& carry : carries) {
      auto sizes = carry.sizes;
      sizes.insert(sizes.begin(), kNumPlaces);
      state.push_back(writer.constant(0, carry.dtype, sizes));
    }
    const auto keep_one = [&](HloWriter& inner, const Hlo& index, const Hlos& now, const Hlos& outside) {
      const auto first = part(now, 0, num_carries_);
      Hlos next = advance(inner, part_of(inner, outside, index), first, part(outside, bounds.size(), free.size()));
      for (size_t i = 0; i < num_carries_; ++i)
        next.push_back(write_rows(inner, now[num_carries_ + i], first[i], index, 1));
      return next;
    };
    const auto last = counted_loop(writer, number(writer, 0), bounds[3], state, joined(bounds, free), keep_one);
    return part(last, num_carries_, num_carries_);
  }

  // Part `index` of a range: `bounds` are its begin and end, and the size of a part.
  static Range part_of(HloWriter& writer, const Hlos& bounds, const Hlo& index) {
    const Hlo begin = writer.binary("add", bounds[0], writer.binary("multiply", index, bounds[2]));
    return {begin, writer.binary("minimum", writer.binary("add", begin, bounds[2]), bounds[1])};
  }

  Hlos reverse_steps(HloWriter& writer, const Range& range, const Hlos& carries, const Hlos& gradients,
                     const Hlos& free) const {
    const auto reverse_step = [&](HloWriter& inner, const Hlo& index, const Hlos& now, const Hlos& outside) {
      const Hlo last = inner.binary("subtract", outside[1], number(inner, 1));
      const Range before{outside[0], inner.binary("subtract", last, index)};
      const auto constant = part(outside, 2 + num_carries_, free.size());
      const auto here = advance(inner, before, part(outside, 2, num_carries_), constant);
      const auto results = lower_body(inner, *gradient_.forward, joined(here, constant));
      return lower_body(inner, *gradient_.backward, joined(now, read_by_backward(results, constant)));
    };
    const Hlo count = writer.binary("subtract", range.end, range.begin);
    return counted_loop(writer, number(writer, 0), count, gradients,
                        joined(joined({range.begin, range.end}, carries), free), reverse_step);
  }

  Hlos read_by_backward(const Hlos& results, const Hlos& free) const {
    const size_t first = results.size() - gradient_.slices.size();
    Hlos read;
    for (const GradientSource& source : gradient_.slices) read.push_back(results[first + source.index]);
    for (const GradientSource& source : gradient_.free) read.push_back(free[source.index - num_carries_]);
    return read;
  }

  const Lowering& node_;
  const Node& loop_;
  const Graph& step_;
  LoopGradient gradient_;
  size_t num_carries_;
};

// Residuals are the only slices that the backward of a loop without slices has.
bool is_of_residuals(const std::vector<GradientSource>& sources) {
  return std::all_of(sources.begin(), sources.end(),
                     [](const GradientSource& source) { return source.kind == GradientSource::Kind::kResidual; });
}

bool has_loop_gradient(const Lowering& node) {
  const auto gradient = loop_gradient(node.node());
  return gradient && is_of_residuals(gradient->slices) && are_lowered(*gradient->forward) &&
         are_lowered(*gradient->backward);
}

Hlos lower_vjp(const Lowering& node) { return WhileGradient(node, *loop_gradient(node.node())).lower(); }

constexpr LoweringRow kRows[] = {{"hop.vjp", lower_vjp, has_loop_gradient}};

}  // namespace

std::span<const LoweringRow> while_gradient_lowerings() { return kRows; }

}  // namespace diptych::detail
