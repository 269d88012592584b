// Scans that keep few carries: the forward keeps them as stacks, and the backward is a loop over the steps of a
// reversal, each of which has loops over the steps of a segment. What the recursion decides stands in tables of whole
// numbers.
#include <algorithm>

#include "diptych/base/list.h"
#include "diptych/graph/hop_attributes.h"
#include "diptych/ops/gradient_source.h"
#include "diptych/ops/treeverse.h"
#include "diptych/xla/hlo/lower_body.h"
#include "diptych/xla/hlo/lowering_loops.h"

namespace diptych::detail {
namespace {

using Hlos = std::vector<Hlo>;

/// The steps of a scan and its segments, by their attributes.
struct Segments {
  explicit Segments(const Lowering& node) : Segments(HopAttributes::of(node.node())) {}
  explicit Segments(const HopAttributes& attributes)
      : length(attributes.integer("length")),
        size(attributes.integer("segment")),
        spare(attributes.integer("saved_carries") - 1),
        reverse(attributes.flag("reverse")),
        count((length + size - 1) / size) {}
  int64_t begin(int64_t segment) const { return std::min(length, segment * size); }
  // The row of the slices that a step takes, and of the stacks that it writes.
  Hlo row_of(HloWriter& writer, const Hlo& step) const {
    return reverse ? writer.binary("subtract", writer.constant(length - 1, at::kLong), step) : step;
  }

  int64_t length, size, spare;
  bool reverse;
  int64_t count;
};

Hlo number(HloWriter& writer, int64_t value) { return writer.constant(value, at::kLong); }

Hlo entry(HloWriter& writer, const Hlo& table, const Hlo& index) { return read_rows(writer, table, index, 1, {}); }

std::vector<int64_t> input_sizes(const Graph& body, size_t index) {
  return body.meta(body.inputs()[index]).size_hints();
}

Hlos rows_for(HloWriter& writer, const Hlos& stacks, const Hlo& place, const Graph& body, size_t first_input) {
  Hlos rows;
  for (size_t i = 0; i < stacks.size(); ++i)
    rows.push_back(read_rows(writer, stacks[i], place, 1, input_sizes(body, first_input + i)));
  return rows;
}

/// Stacks of zeros for results `first` and on of a body.
Hlos stacks_of_results(HloWriter& writer, const Graph& body, size_t first, size_t count, int64_t length) {
  Hlos stacks;
  for (size_t i = first; i < first + count; ++i) {
    const TensorMeta& meta = body.meta(body.outputs()[i]);
    auto sizes = meta.size_hints();
    sizes.insert(sizes.begin(), length);
    stacks.push_back(writer.constant(0, meta.dtype, sizes));
  }
  return stacks;
}

class CheckpointedScan {
 public:
  explicit CheckpointedScan(const Lowering& node)
      : node_(node),
        body_(hop_body(node, 0)),
        segments_(node),
        carries_(hop_group(node, "init")),
        slices_(hop_group(node, "xs")),
        free_(hop_group(node, "free")),
        copies_(HopAttributes::of(node.node()).integer("copies")) {}

  Hlos lower() {
    HloWriter& writer = node_.writer();
    const size_t num_carries = carries_.size(), num_stacks = body_.outputs().size() - num_carries;
    const auto kept = kept_in_forward(segments_.count, segments_.spare);
    const auto stacks = stacks_of_results(writer, body_, num_carries, num_stacks, segments_.length);
    Hlos state = joined(carries_, stacks);
    // A row more than is kept takes the carries in front of the other segments.
    const auto num_kept = static_cast<int64_t>(kept.size());
    if (copies_ > 0) state = joined(std::move(state), stacks_of_results(writer, body_, 0, num_carries, num_kept + 1));
    if (segments_.count > 0) state = run_segments(state, kept);
    Hlos results = part(state, 0, num_carries + num_stacks);
    Hlos rows;
    for (size_t i = num_carries + num_stacks; i < state.size(); ++i)
      rows.push_back(writer.slice_along(state[i], 0, 0, num_kept));
    for (int64_t copy = 0; copy < copies_; ++copy) results = joined(std::move(results), rows);
    return results;
  }

 private:
  Hlos run_segments(const Hlos& state, const std::vector<int64_t>& kept) const {
    HloWriter& writer = node_.writer();
    std::vector<int64_t> rows, begins, ends;
    for (int64_t segment = 0; segment < segments_.count; ++segment) {
      rows.push_back(std::find(kept.begin(), kept.end(), segment) - kept.begin());
      begins.push_back(segments_.begin(segment));
      ends.push_back(segments_.begin(segment + 1));
    }
    const Hlos tables{writer.constant_list(rows, at::kLong), writer.constant_list(begins, at::kLong),
                      writer.constant_list(ends, at::kLong)};
    const auto segment = [&](HloWriter& inner, const Hlo& index, const Hlos& now, const Hlos& constant) {
      return run_segment(inner, index, now, constant);
    };
    return counted_loop(writer, number(writer, 0), number(writer, segments_.count), state,
                        joined(joined(tables, slices_), free_), segment);
  }

  Hlos run_segment(HloWriter& writer, const Hlo& index, const Hlos& state, const Hlos& constant) const {
    const size_t num_carries = carries_.size(), num_results = body_.outputs().size();
    const Hlo row = entry(writer, constant[0], index);
    Hlos next = state;
    for (size_t i = num_results; i < state.size(); ++i)
      next[i] = write_rows(writer, state[i], state[i - num_results], row, 1);
    const auto step = [&](HloWriter& inner, const Hlo& number, const Hlos& now, const Hlos& outside) {
      const Hlo place = segments_.row_of(inner, number);
      const auto rows = rows_for(inner, part(outside, 0, slices_.size()), place, body_, num_carries);
      auto inputs = joined(joined(part(now, 0, num_carries), rows), part(outside, slices_.size(), free_.size()));
      Hlos results = lower_body(inner, body_, std::move(inputs));
      for (size_t i = num_carries; i < num_results; ++i) results[i] = write_rows(inner, now[i], results[i], place, 1);
      return results;
    };
    const auto after = counted_loop(writer, entry(writer, constant[1], index), entry(writer, constant[2], index),
                                    part(next, 0, num_results), part(constant, 3, constant.size() - 3), step);
    return joined(after, part(next, num_results, next.size() - num_results));
  }

  const Lowering& node_;
  const Graph& body_;
  Segments segments_;
  Hlos carries_, slices_, free_;
  int64_t copies_;
};

class ReverseSegments {
 public:
  explicit ReverseSegments(const Lowering& node)
      : node_(node),
        advance_(hop_body(node, 0)),
        forward_(hop_body(node, 1)),
        backward_(hop_body(node, 2)),
        segments_(node),
        init_(hop_group(node, "init")),
        running_(hop_group(node, "running")),
        slices_(hop_group(node, "xs")),
        free_(hop_group(node, "free")),
        tangents_(hop_group(node, "tangents")) {
    const HopAttributes attributes = HopAttributes::of(node.node());
    slice_sources_ = gradient_sources(attributes.integers("slice_sources"));
    free_sources_ = gradient_sources(attributes.integers("free_sources"));
    num_residuals_ = std::count_if(slice_sources_.begin(), slice_sources_.end(), [](const GradientSource& source) {
      return source.kind == GradientSource::Kind::kResidual;
    });
  }

  Hlos lower() {
    HloWriter& writer = node_.writer();
    const size_t num_running = running_.size(), num_stacks = backward_.outputs().size() - num_running;
    const auto gradients =
        joined(running_, stacks_of_results(writer, backward_, num_running, num_stacks, segments_.length));
    const auto steps = reversal_steps(segments_.count, segments_.spare);
    if (steps.empty()) return gradients;
    const auto step = [&](HloWriter& inner, const Hlo& index, const Hlos& state, const Hlos& constant) {
      return run_step(inner, index, state, constant);
    };
    const auto state = joined(places(steps), gradients);
    const auto constant = joined(joined(joined(tables(steps), slices_), free_), tangents_);
    const auto last = counted_loop(writer, number(writer, 0), number(writer, static_cast<int64_t>(steps.size())), state,
                                   constant, step);
    return part(last, init_.size(), gradients.size());
  }

 private:
  enum Table : size_t { kLoad, kStore, kAdvanceBegin, kAdvanceEnd, kReverseBegin, kReverseEnd, kNumTables };

  // A stack for each carry: those that are known at first, those found on the way, and a row for what is not kept.
  Hlos places(const std::vector<ReversalStep>& steps) {
    HloWriter& writer = node_.writer();
    const auto kept = hop_group(node_, "kept");
    num_places_ = 1;
    for (const ReversalStep& step : steps) num_places_ = std::max({num_places_, step.load + 1, step.store + 1});
    Hlos stacks = stacks_of_results(writer, advance_, 0, init_.size(), num_places_ + 1);
    for (size_t i = 0; i < init_.size(); ++i) {
      stacks[i] = write_rows(writer, stacks[i], init_[i], number(writer, 0), 1);
      if (kept[i].sizes[0] > 0) stacks[i] = write_rows(writer, stacks[i], kept[i], number(writer, 1), kept[i].sizes[0]);
    }
    return stacks;
  }

  Hlos tables(const std::vector<ReversalStep>& steps) const {
    std::vector<std::vector<int64_t>> columns(kNumTables);
    for (const ReversalStep& step : steps) {
      const bool reverses = step.segment >= 0;
      columns[kLoad].push_back(step.load);
      columns[kStore].push_back(step.store >= 0 ? step.store : num_places_);
      columns[kAdvanceBegin].push_back(segments_.begin(step.begin));
      columns[kAdvanceEnd].push_back(segments_.begin(step.end));
      columns[kReverseBegin].push_back(reverses ? segments_.begin(step.segment) : 0);
      columns[kReverseEnd].push_back(reverses ? segments_.begin(step.segment + 1) : 0);
    }
    Hlos list;
    for (const auto& column : columns) list.push_back(node_.writer().constant_list(column, at::kLong));
    return list;
  }

  // `constant`: tables, slices, free operands, tangents.
  Hlos run_step(HloWriter& writer, const Hlo& index, const Hlos& state, const Hlos& constant) const {
    Hlos at;
    for (size_t i = 0; i < kNumTables; ++i) at.push_back(entry(writer, constant[i], index));
    Hlos stacks = part(state, 0, init_.size());
    const auto operands = part(constant, kNumTables, slices_.size() + free_.size());
    const auto carries = advance(writer, at, rows_for(writer, stacks, at[kLoad], advance_, 0), operands);
    for (size_t i = 0; i < stacks.size(); ++i) stacks[i] = write_rows(writer, stacks[i], carries[i], at[kStore], 1);
    const auto residuals = run_forward(writer, at, carries, operands);
    const auto tangents = part(constant, kNumTables + operands.size(), tangents_.size());
    const auto gradients = part(state, init_.size(), state.size() - init_.size());
    return joined(stacks, run_backward(writer, at, gradients, joined(joined(residuals, operands), tangents)));
  }

  Hlos body_inputs(HloWriter& writer, const Hlo& step, const Hlos& carries, const Hlos& operands) const {
    const auto rows =
        rows_for(writer, part(operands, 0, slices_.size()), segments_.row_of(writer, step), advance_, carries.size());
    return joined(joined(carries, rows), part(operands, slices_.size(), free_.size()));
  }

  Hlos advance(HloWriter& writer, const Hlos& at, const Hlos& carries, const Hlos& operands) const {
    const auto step = [&](HloWriter& inner, const Hlo& number, const Hlos& now, const Hlos& outside) {
      return lower_body(inner, advance_, body_inputs(inner, number, now, outside));
    };
    return counted_loop(writer, at[kAdvanceBegin], at[kAdvanceEnd], carries, operands, step);
  }

  // Returns the stacks of a segment's residuals, first step first.
  Hlos run_forward(HloWriter& writer, const Hlos& at, const Hlos& carries, const Hlos& operands) const {
    const size_t num_carries = carries.size(), first = forward_.outputs().size() - num_residuals_;
    const auto step = [&](HloWriter& inner, const Hlo& number, const Hlos& now, const Hlos& outside) {
      const auto inputs = body_inputs(inner, number, part(now, 0, num_carries), part(outside, 1, outside.size() - 1));
      const auto results = lower_body(inner, forward_, inputs);
      Hlos next = part(results, 0, num_carries);
      const Hlo local = inner.binary("subtract", number, outside[0]);
      for (size_t i = 0; i < num_residuals_; ++i)
        next.push_back(write_rows(inner, now[num_carries + i], results[first + i], local, 1));
      return next;
    };
    const auto stacks = stacks_of_results(writer, forward_, first, num_residuals_, segments_.size);
    const auto last = counted_loop(writer, at[kReverseBegin], at[kReverseEnd], joined(carries, stacks),
                                   joined({at[kReverseBegin]}, operands), step);
    return part(last, num_carries, num_residuals_);
  }

  // `read`: residuals, slices, free operands, tangents.
  Hlos run_backward(HloWriter& writer, const Hlos& at, const Hlos& gradients, const Hlos& read) const {
    const size_t num_running = running_.size();
    const auto step = [&](HloWriter& inner, const Hlo& index, const Hlos& now, const Hlos& outside) {
      const Hlo one = number(inner, 1), last = inner.binary("subtract", outside[1], one);
      const Hlo reversed = inner.binary("subtract", last, index);
      const Hlo local = inner.binary("subtract", reversed, outside[0]), place = segments_.row_of(inner, reversed);
      const auto inputs = joined(part(now, 0, num_running),
                                 backward_operands(inner, local, place, part(outside, 2, outside.size() - 2)));
      Hlos next = lower_body(inner, backward_, inputs);
      for (size_t i = num_running; i < next.size(); ++i) next[i] = write_rows(inner, now[i], next[i], place, 1);
      return next;
    };
    const Hlo count = writer.binary("subtract", at[kReverseEnd], at[kReverseBegin]);
    return counted_loop(writer, number(writer, 0), count, gradients, joined({at[kReverseBegin], at[kReverseEnd]}, read),
                        step);
  }

  Hlos backward_operands(HloWriter& writer, const Hlo& local, const Hlo& place, const Hlos& read) const {
    using Kind = GradientSource::Kind;
    const size_t first_slice = num_residuals_, first_free = first_slice + slices_.size(),
                 first_tangent = first_free + free_.size();
    Hlos inputs;
    size_t next_tangent = first_tangent;
    for (const GradientSource& source : slice_sources_) {
      const bool is_residual = source.kind == Kind::kResidual;
      const size_t from = is_residual                     ? source.index
                          : source.kind == Kind::kTangent ? next_tangent++
                                                          : first_slice + source.index - init_.size();
      inputs.push_back(read_rows(writer, read[from], is_residual ? local : place, 1,
                                 input_sizes(backward_, running_.size() + inputs.size())));
    }
    for (const GradientSource& source : free_sources_)
      inputs.push_back(read[first_slice + source.index - init_.size()]);
    return inputs;
  }

  const Lowering& node_;
  const Graph &advance_, &forward_, &backward_;
  Segments segments_;
  Hlos init_, running_, slices_, free_, tangents_;
  std::vector<GradientSource> slice_sources_, free_sources_;
  size_t num_residuals_ = 0;
  int64_t num_places_ = 1;
};

Hlos lower_checkpointed_scan(const Lowering& node) { return CheckpointedScan(node).lower(); }
Hlos lower_reverse_segments(const Lowering& node) { return ReverseSegments(node).lower(); }

constexpr LoweringRow kSegmentRows[] = {
    {"hop.checkpointed_scan", lower_checkpointed_scan, returns_all},
    {"hop.reverse_segments", lower_reverse_segments, returns_all},
};

}  // namespace

std::span<const LoweringRow> segment_lowerings() { return kSegmentRows; }

}  // namespace diptych::detail
