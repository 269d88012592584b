// Higher-order operators: loops stay loops, branches stay branches.
#include "diptych/base/list.h"
#include "diptych/graph/hop_attributes.h"
#include "diptych/ops/scan_nodes.h"
#include "diptych/xla/hlo/lower_body.h"
#include "diptych/xla/hlo/lowering_loops.h"

namespace diptych::detail {
namespace {

// A scan, whose body takes and returns `block` rows of each stack at a time, or one row without its first dimension.
class ScanLowering {
 public:
  explicit ScanLowering(const Lowering& node)
      : node_(node),
        body_(hop_body(node, 0)),
        scan_(ScanAttributes::of(HopAttributes::of(node.node()))),
        carries_(hop_group(node, "init")),
        slices_(hop_group(node, "xs")),
        free_(hop_group(node, "free")),
        num_stacks_(body_.outputs().size() - carries_.size()) {
    const HopAttributes attributes = HopAttributes::of(node.node());
    if (attributes.has("block")) block_ = attributes.integer("block");
  }

  std::vector<Hlo> lower() {
    HloWriter& writer = node_.writer();
    std::vector<Hlo> stacks;
    for (size_t i = 0; i < num_stacks_; ++i) stacks.push_back(first_stack(i));
    if (scan_.length == 0) return joined(carries_, stacks);
    // What the body reads from outside is part of the state, which it leaves as it is: regions see nothing else.
    auto state = joined(joined({node_.scalar_of(0, at::kLong)}, carries_), stacks);
    state = joined(joined(std::move(state), slices_), free_);
    const auto condition = [&](HloWriter& inner, std::span<const Hlo> values) -> std::vector<Hlo> {
      return {inner.compare("LT", values[0], inner.constant(scan_.length / rows(), at::kLong))};
    };
    const auto step = [&](HloWriter& inner, std::span<const Hlo> values) {
      return advance(inner, {values.begin(), values.end()});
    };
    const auto last = writer.while_loop(state, condition, step);
    return part(last, 1, carries_.size() + num_stacks_);
  }

 private:
  int64_t rows() const { return block_ == 0 ? 1 : block_; }

  // A stack of zeros, and its front where it has one.
  Hlo first_stack(size_t index) const {
    const TensorMeta& meta = node_.result(carries_.size() + index);
    HloWriter& writer = node_.writer();
    const Hlo zeros = writer.constant(0, meta.dtype, meta.size_hints());
    if (!scan_.has_front(index)) return zeros;
    const Hlo& carry = carries_[scan_.fronts[index]];
    return write_rows(writer, zeros, carry, writer.constant(scan_.reverse ? scan_.length : 0, at::kLong), 1);
  }

  // The first row of a step, in the order of the slices.
  Hlo place_of(HloWriter& writer, const Hlo& step) const {
    const Hlo ordered =
        scan_.reverse ? writer.binary("subtract", writer.constant(scan_.length / rows() - 1, at::kLong), step) : step;
    return writer.binary("multiply", ordered, writer.constant(rows(), at::kLong));
  }

  std::vector<Hlo> advance(HloWriter& writer, const std::vector<Hlo>& state) const {
    const size_t num_carries = carries_.size(), first_slice = 1 + num_carries + num_stacks_;
    const Hlo place = place_of(writer, state[0]);
    auto inputs = part(state, 1, num_carries);
    for (size_t i = 0; i < slices_.size(); ++i) {
      const auto sizes = body_.meta(body_.inputs()[num_carries + i]).size_hints();
      inputs.push_back(read_rows(writer, state[first_slice + i], place, rows(), sizes));
    }
    inputs = joined(std::move(inputs), part(state, first_slice + slices_.size(), free_.size()));
    const auto results = lower_body(writer, body_, std::move(inputs));
    std::vector<Hlo> next{writer.binary("add", state[0], writer.constant(1, at::kLong))};
    next.insert(next.end(), results.begin(), results.begin() + static_cast<int64_t>(num_carries));
    for (size_t i = 0; i < num_stacks_; ++i) {
      // Rows of a forward stack with a front come after it.
      const bool is_shifted = scan_.has_front(i) && !scan_.reverse;
      const Hlo row = is_shifted ? writer.binary("add", place, writer.constant(1, at::kLong)) : place;
      next.push_back(write_rows(writer, state[1 + num_carries + i], results[num_carries + i], row, rows()));
    }
    return joined(std::move(next), part(state, first_slice, slices_.size() + free_.size()));
  }

  const Lowering& node_;
  const Graph& body_;
  ScanAttributes scan_;
  std::vector<Hlo> carries_, slices_, free_;
  size_t num_stacks_;
  int64_t block_ = 0;
};

std::vector<Hlo> lower_scan(const Lowering& node) { return ScanLowering(node).lower(); }

std::vector<Hlo> lower_while(const Lowering& node) {
  const auto carries = hop_group(node, "init"), asked = hop_group(node, "condition_free"),
             free = hop_group(node, "step_free");
  const auto state = joined(joined(carries, asked), free);
  const auto condition = [&](HloWriter& writer, std::span<const Hlo> values) -> std::vector<Hlo> {
    const std::vector<Hlo> all(values.begin(), values.end());
    return {predicate(writer, lower_body(writer, hop_body(node, 0), part(all, 0, carries.size() + asked.size()))[0])};
  };
  const auto step = [&](HloWriter& writer, std::span<const Hlo> values) {
    const std::vector<Hlo> all(values.begin(), values.end());
    const auto invariant = part(all, carries.size() + asked.size(), free.size());
    auto next = lower_body(writer, hop_body(node, 1), joined(part(all, 0, carries.size()), invariant));
    return joined(joined(std::move(next), part(all, carries.size(), asked.size())), invariant);
  };
  return part(node.writer().while_loop(state, condition, step), 0, carries.size());
}

std::vector<Hlo> lower_cond(const Lowering& node) {
  HloWriter& writer = node.writer();
  const auto arguments = hop_group(node, "args");
  std::vector<Hlo> results;
  for (size_t i = 0; i < node.node().outputs.size(); ++i) results.push_back({"", node.dtype(i), node.sizes(i)});
  const auto branch = [&](size_t index, std::string_view group) -> HloWriter::Body {
    return [&node, arguments, index, free = hop_group(node, group)](HloWriter& inner, std::span<const Hlo>) {
      return lower_body(inner, hop_body(node, index), joined(arguments, free));
    };
  };
  const Hlo chosen = writer.convert(predicate(writer, hop_group(node, "pred")[0]), at::kInt);
  return writer.switch_case(chosen, results, {branch(1, "false_free"), branch(0, "true_free")});
}

std::vector<Hlo> lower_invoke(const Lowering& node) {
  return lower_body(node.writer(), hop_body(node, 0), joined(hop_group(node, "args"), hop_group(node, "free")));
}

// The function's own rule for its gradient was used when the graph was differentiated: here it is what it computes.
std::vector<Hlo> lower_custom_vjp(const Lowering& node) {
  const HopAttributes attributes = HopAttributes::of(node.node());
  const auto num_results = static_cast<size_t>(attributes.integer("num_results"));
  const auto all =
      lower_body(node.writer(), hop_body(node, 0), joined(hop_group(node, "args"), hop_group(node, "fwd_free")));
  const auto residuals = part(all, num_results, all.size() - num_results);
  auto results = part(all, 0, num_results);
  for (int64_t round = 0; round < attributes.integer("copies"); ++round)
    results = joined(std::move(results), residuals);
  return results;
}

constexpr LoweringRow kHopRows[] = {
    {"hop.scan", lower_scan, returns_all},        {"hop.blocked_scan", lower_scan, returns_all},
    {"hop.while_loop", lower_while, returns_all}, {"hop.cond", lower_cond, returns_all},
    {"hop.invoke", lower_invoke, returns_all},    {"hop.custom_vjp", lower_custom_vjp, returns_all},
};

}  // namespace

std::span<const LoweringRow> hop_lowerings() { return kHopRows; }

}  // namespace diptych::detail
