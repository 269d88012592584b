#include "diptych/hops/checkpointed_scan/checkpointed_scan.h"

#include "diptych/base/list.h"
#include "diptych/hops/checkpointed_scan/checkpointed_scan_derivative.h"
#include "diptych/hops/scan/scan_transforms.h"
#include "diptych/hops/strides.h"
#include "diptych/ops/treeverse.h"

namespace diptych::detail {
namespace {

using Tensors = std::vector<at::Tensor>;

std::vector<HopAttribute> attributes_of(const SegmentLayout& layout) {
  return {{"length", layout.scan.length},
          {"reverse", layout.scan.reverse},
          {"segment", layout.segment},
          {"saved_carries", layout.carries},
          {"copies", layout.copies}};
}

/// Runs the whole scan segment by segment, so that what graph passes stack within one run is only a segment long, and
/// keeps the carries in front of some segments.
class CheckpointedKernel {
 public:
  explicit CheckpointedKernel(const Hop& hop)
      : results_(hop.results()),
        layout_(hop),
        runner_(std::make_shared<detail::SegmentRunner>(hop.bodies()[0], layout_.scan.num_carries,
                                                        layout_.scan.num_slices, layout_.scan.reverse)) {
    if (layout_.copies > 0) stops_ = detail::kept_in_forward(layout_.num_segments(), layout_.carries - 1);
  }

  Tensors operator()(Tensors&& operands) const {
    const auto& scan = layout_.scan;
    const Tensors kept = std::move(operands);
    Tensors carries = part(kept, 0, scan.num_carries);
    const Tensors slices = part(kept, scan.num_carries, scan.num_slices);
    const Tensors free = part(kept, scan.num_carries + scan.num_slices, scan.num_free);
    Tensors results;
    const bool is_whole = layout_.num_segments() < 2;
    if (is_whole) results = runner_->run(carries, slices, free, scan.length);
    results.resize(std::max(results.size(), scan.num_carries));
    for (size_t k = results.size(); k < results_.size(); ++k) results.push_back(empty_like_meta(results_[k]));
    if (is_whole) {
      own_results(results_, kept, results);
      return results;
    }
    size_t num_kept = 0;
    for (int64_t index = 0; index < layout_.num_segments(); ++index) {
      if (num_kept < stops_.size() && stops_[num_kept] == index) keep(carries, num_kept++, results);
      const int64_t count = layout_.end(index) - layout_.begin(index);
      const int64_t place = detail::slices_begin(scan.length, scan.reverse, layout_.begin(index), layout_.end(index));
      const Tensors got = runner_->run(carries, detail::cut(slices, place, count), free, count);
      for (size_t k = scan.num_carries; k < got.size(); ++k) results[k].narrow(0, place, count).copy_(got[k]);
      carries = part(got, 0, scan.num_carries);
    }
    std::copy(carries.begin(), carries.end(), results.begin());
    return results;
  }

 private:
  // Writes the carries to row `row` of each of the copies.
  void keep(const Tensors& carries, size_t row, Tensors& results) const {
    const size_t first = layout_.scan.num_carries + layout_.scan.num_stacks;
    for (size_t k = first; k < results.size(); ++k) {
      results[k][static_cast<int64_t>(row)].copy_(carries[(k - first) % carries.size()]);
    }
  }

  std::vector<TensorMeta> results_;
  SegmentLayout layout_;
  std::vector<int64_t> stops_;
  std::shared_ptr<const detail::SegmentRunner> runner_;
};

}  // namespace

Tensors SegmentRunner::run(const Tensors& carries, const Tensors& slices, const Tensors& free, int64_t length) const {
  HopPtr scan;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& known : scans_) {
      if (known.first == length) scan = known.second;
    }
    if (!scan) {
      scan = make_scan(body_, num_carries_, num_slices_, length, reverse_);
      scans_.emplace_back(length, scan);
    }
  }
  Tensors operands = carries;
  operands.insert(operands.end(), slices.begin(), slices.end());
  operands.insert(operands.end(), free.begin(), free.end());
  return scan->run(std::move(operands), num_carries_);
}

Tensors cut(const Tensors& stacks, int64_t begin, int64_t count) {
  Tensors pieces;
  for (const at::Tensor& stack : stacks) pieces.push_back(stack.narrow(0, begin, count));
  return pieces;
}

SegmentLayout::SegmentLayout(const Hop& hop)
    : scan(hop),
      segment(hop.attributes().integer("segment")),
      carries(hop.attributes().integer("saved_carries")),
      copies(hop.attributes().integer("copies")) {}

const CheckpointedScanOperator& CheckpointedScanOperator::get() {
  static const auto* const op = new CheckpointedScanOperator;
  return *op;
}

std::vector<TensorMeta> CheckpointedScanOperator::infer(const Hop& hop) const {
  const SegmentLayout layout(hop);
  auto metas = ScanOperator::get().infer(hop);
  const auto kept = detail::kept_in_forward(layout.num_segments(), layout.carries - 1);
  for (int64_t copy = 0; copy < layout.copies; ++copy) {
    for (size_t i = 0; i < layout.scan.num_carries; ++i) {
      metas.push_back(stacked(hop.body(0).input(i), static_cast<int64_t>(kept.size())));
    }
  }
  return metas;
}

HopFunction CheckpointedScanOperator::compile(const Hop& hop) const { return CheckpointedKernel(hop); }

std::unique_ptr<Derivative> CheckpointedScanOperator::differentiate(const Hop& hop,
                                                                    const std::vector<bool>& requires_grad,
                                                                    bool create_graph) const {
  return detail::checkpointed_scan_derivative(hop, requires_grad, create_graph);
}

HigherOrderOperator::LiftedDraws CheckpointedScanOperator::lift_draws(const Hop& hop) const {
  const SegmentLayout layout(hop);
  auto lifted = ScanOperator::get().lift_draws(hop);
  lifted.rest = make_hop(*this, lifted.rest->bodies(), lifted.rest->groups(), attributes_of(layout));
  return lifted;
}

namespace {

// Makes the scan over another body.
MakeScan same_scan(const Hop& hop) {
  return [attributes = attributes_of(SegmentLayout(hop))](std::shared_ptr<const Body> body, size_t num_carries,
                                                          size_t num_slices) {
    const size_t num_free = body->num_inputs() - num_carries - num_slices;
    return make_hop(CheckpointedScanOperator::get(), {std::move(body)}, {num_carries, num_slices, num_free},
                    attributes);
  };
}

}  // namespace

std::vector<Batched> CheckpointedScanOperator::call_batched(const HopPtr& hop, std::vector<Batched>&& operands,
                                                            const Batch& batch) const {
  return scan_batches(hop, std::move(operands), batch, same_scan(*hop));
}

std::vector<Dual> CheckpointedScanOperator::call_dual(const HopPtr& hop, std::vector<Dual>&& operands) const {
  return scan_duals(hop, std::move(operands), same_scan(*hop));
}

HopPtr make_checkpointed_scan(std::shared_ptr<const Body> body, size_t num_carries, size_t num_slices, int64_t length,
                              bool reverse, const Checkpoints& checkpoints) {
  const size_t num_free = body->num_inputs() - num_carries - num_slices;
  return make_hop(CheckpointedScanOperator::get(), {std::move(body)}, {num_carries, num_slices, num_free},
                  {{"length", length},
                   {"reverse", reverse},
                   {"segment", checkpoints.segment},
                   {"saved_carries", checkpoints.carries}});
}

}  // namespace diptych::detail
