#include "diptych/hops/scan/scan_operator.h"

#include <ATen/ops/cat.h>

#include "diptych/base/check.h"
#include "diptych/hops/call.h"
#include "diptych/hops/draws.h"
#include "diptych/hops/scan/blocked_scan.h"
#include "diptych/hops/scan/scan_derivative.h"
#include "diptych/hops/scan/scan_kernel.h"
#include "diptych/hops/scan/scan_transforms.h"
#include "diptych/hops/strides.h"

namespace diptych {

using namespace detail;

detail::ScanLayout::ScanLayout(const Hop& scan)
    : ScanAttributes(ScanAttributes::of(scan.attributes())),
      num_carries(scan.group("init")),
      num_slices(scan.group("xs")),
      num_free(scan.group("free")),
      num_stacks(scan.body(0).num_results() - num_carries) {
  DIPTYCH_ASSERT(scan.body(0).num_inputs() == scan.num_operands(), "a scan's body takes {} inputs, the scan has {}",
                 scan.body(0).num_inputs(), scan.num_operands());
  DIPTYCH_ASSERT(fronts.empty() || fronts.size() == num_stacks, "a scan has {} stacks, but {} fronts", num_stacks,
                 fronts.size());
}

const ScanOperator& ScanOperator::get() {
  static const auto* const op = [] {
    register_hop(BlockedScanOperator::get());  // a pass may put one in a scan's place
    return new ScanOperator;
  }();
  return *op;
}

std::vector<TensorMeta> ScanOperator::infer(const Hop& hop) const {
  const detail::ScanLayout layout(hop);
  return scan_results(*hop.body(0).graph(), layout.num_carries, layout);
}

HopFunction ScanOperator::compile(const Hop& hop) const { return detail::make_scan_kernel(hop); }

std::unique_ptr<Derivative> ScanOperator::differentiate(const Hop& hop, const std::vector<bool>& requires_grad,
                                                        bool create_graph) const {
  return detail::scan_derivative(hop, requires_grad, create_graph);
}

// Expresses fronts in operators that autograd knows.
std::vector<at::Tensor> ScanOperator::call_with_grad(const HopPtr& hop, std::vector<at::Tensor>&& operands) const {
  const detail::ScanLayout layout(*hop);
  if (layout.fronts.empty()) return HigherOrderOperator::call_with_grad(hop, std::move(operands));
  ScanAttributes plain = layout;
  plain.fronts.clear();
  auto results = call(make_scan(hop->bodies()[0], layout.num_carries, layout.num_slices, plain), operands);
  for (size_t i = 0; i < layout.num_stacks; ++i) {
    if (!layout.has_front(i)) continue;
    at::Tensor& stack = results[layout.num_carries + i];
    const at::Tensor front = operands[layout.fronts[i]].unsqueeze(0);
    stack = plain.reverse ? at::cat({stack, front}) : at::cat({front, stack});
  }
  return results;
}

HigherOrderOperator::LiftedDraws ScanOperator::lift_draws(const Hop& hop) const {
  const detail::ScanLayout layout(hop);
  const auto bodies =
      detail::split_draws(*hop.body(0).graph(), layout.num_carries, layout.num_carries + layout.num_slices);
  const auto scan_of = [&](std::shared_ptr<const Graph> graph, size_t num_slices) {
    return make_scan(std::make_shared<const Body>(std::move(graph)), layout.num_carries, num_slices, layout);
  };
  return {scan_of(bodies.draws, layout.num_slices), scan_of(bodies.rest, layout.num_slices + bodies.num_draws), 1,
          layout.num_carries};
}

namespace {

// Makes the scan over another body.
detail::MakeScan same_scan(const Hop& hop) {
  ScanAttributes plain = detail::ScanLayout(hop);
  plain.fronts.clear();
  return [plain](std::shared_ptr<const Body> body, size_t num_carries, size_t num_slices) {
    return make_scan(std::move(body), num_carries, num_slices, plain);
  };
}

}  // namespace

std::vector<Batched> ScanOperator::call_batched(const HopPtr& hop, std::vector<Batched>&& operands,
                                                const detail::Batch& batch) const {
  return detail::scan_batches(hop, std::move(operands), batch, same_scan(*hop));
}

std::vector<Dual> ScanOperator::call_dual(const HopPtr& hop, std::vector<Dual>&& operands) const {
  return detail::scan_duals(hop, std::move(operands), same_scan(*hop));
}

HopPtr make_scan(std::shared_ptr<const Body> body, size_t num_carries, size_t num_slices,
                 const ScanAttributes& attributes) {
  const size_t num_free = body->num_inputs() - num_carries - num_slices;
  return std::make_shared<const Hop>(ScanOperator::get(), std::vector<std::shared_ptr<const Body>>{std::move(body)},
                                     std::vector<size_t>{num_carries, num_slices, num_free},
                                     scan_attributes(attributes));
}

}  // namespace diptych
