#include "diptych/hops/scan/scan_transforms.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/zeros_like.h>

#include "diptych/hops/call.h"
#include "diptych/hops/transforms/transformed_body.h"

namespace diptych::detail {
namespace {

// Appends the flags of carries for each stack of carries that the hop returns after a scan's results.
std::vector<bool> flags_of_results(const std::vector<bool>& flags, const ScanLayout& layout, size_t num_results) {
  std::vector<bool> found = flags;
  while (found.size() < num_results) {
    found.push_back(flags[(found.size() - layout.num_carries - layout.num_stacks) % layout.num_carries]);
  }
  return found;
}

// Puts a front before the rows of a stack, along `dim`, or behind them in a reverse scan.
at::Tensor with_front(const at::Tensor& rows, const at::Tensor& front, int64_t dim, bool reverse) {
  const at::Tensor row = front.unsqueeze(dim);
  return reverse ? at::cat({rows, row}, dim) : at::cat({row, rows}, dim);
}

void add_fronts(std::vector<Batched>& results, const std::vector<Batched>& operands, const ScanLayout& layout,
                const Batch& batch) {
  for (size_t i = 0; i < layout.num_stacks; ++i) {
    if (!layout.has_front(i)) continue;
    Batched& stack = results[layout.num_carries + i];
    const Batched& front = operands[static_cast<size_t>(layout.fronts[i])];
    const bool is_batched = stack.is_batched || front.is_batched;
    stack.value = is_batched ? with_front(as_batch(stack, batch), as_batch(front, batch), 1, layout.reverse)
                             : with_front(stack.value, front.value, 0, layout.reverse);
    stack.is_batched = is_batched;
  }
}

at::Tensor tangent_of(const Dual& dual) { return dual.tangent.defined() ? dual.tangent : at::zeros_like(dual.primal); }

void add_fronts(std::vector<Dual>& results, const std::vector<Dual>& operands, const ScanLayout& layout) {
  for (size_t i = 0; i < layout.num_stacks; ++i) {
    if (!layout.has_front(i)) continue;
    Dual& stack = results[layout.num_carries + i];
    const Dual& front = operands[static_cast<size_t>(layout.fronts[i])];
    if (stack.tangent.defined() || front.tangent.defined()) {
      stack.tangent = with_front(tangent_of(stack), tangent_of(front), 0, layout.reverse);
    }
    stack.primal = with_front(stack.primal, front.primal, 0, layout.reverse);
  }
}

}  // namespace

std::vector<Batched> scan_batches(const HopPtr& hop, std::vector<Batched>&& operands, const Batch& batch,
                                  const MakeScan& make) {
  const ScanLayout layout(*hop);
  const auto transformed = hop->transformed(batch_key(batched_flags(operands), batch), [&] {
    std::vector<bool> inputs = batched_flags(operands);
    const auto made = settle_carries(inputs, layout.num_carries, [&](const std::vector<bool>& flags) {
      std::vector<bool> results(flags.begin(), flags.begin() + static_cast<int64_t>(layout.num_carries));
      results.resize(layout.num_carries + layout.num_stacks);
      return batch_body(hop->body(0), flags, results, batch);
    });
    return Hop::Transformed{make(made.body, layout.num_carries, layout.num_slices), made.results};
  });
  std::vector<at::Tensor> given;
  for (size_t i = 0; i < operands.size(); ++i) {
    const bool is_slice = i >= layout.num_carries && i < layout.num_carries + layout.num_slices;
    const bool is_carry = i < layout.num_carries && transformed->results[i];
    given.push_back(is_carry                             ? as_batch(operands[i], batch)
                    : is_slice && operands[i].is_batched ? operands[i].value.movedim(0, 1)
                                                         : operands[i].value);
  }
  const auto tensors = call(transformed->hop, std::move(given));
  const auto flags = flags_of_results(transformed->results, layout, tensors.size());
  std::vector<Batched> results;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const bool is_stack = i >= layout.num_carries;
    results.push_back({is_stack && flags[i] ? tensors[i].movedim(1, 0) : tensors[i], flags[i]});
  }
  add_fronts(results, operands, layout, batch);
  return results;
}

std::vector<Dual> scan_duals(const HopPtr& hop, std::vector<Dual>&& operands, const MakeScan& make) {
  const ScanLayout layout(*hop);
  const std::vector<Dual> fronts = operands;
  const Groups groups{layout.num_carries, layout.num_slices, layout.num_free};
  const auto key = tangent_key(tangent_flags(operands));
  const auto transformed = hop->transformed(key, [&] {
    std::vector<bool> inputs = tangent_flags(operands);
    const auto made = settle_carries(inputs, layout.num_carries, [&](const std::vector<bool>& flags) {
      std::vector<bool> results(flags.begin(), flags.begin() + static_cast<int64_t>(layout.num_carries));
      results.resize(layout.num_carries + layout.num_stacks);
      return dual_body(hop->body(0), groups, flags, {layout.num_carries, layout.num_stacks}, results);
    });
    const Groups sizes = with_tangents(groups, inputs);
    return Hop::Transformed{make(made.body, sizes[0], sizes[1]), made.results};
  });
  for (size_t i = 0; i < layout.num_carries; ++i) {
    if (transformed->results[i]) operands[i].tangent = tangent_of(operands[i]);
  }
  const auto tensors = call(transformed->hop, interleave(operands, groups));
  Groups result_groups{layout.num_carries, layout.num_stacks};
  for (size_t i = layout.num_carries + layout.num_stacks; i < hop->num_results(); i += layout.num_carries) {
    result_groups.push_back(layout.num_carries);
  }
  auto results =
      deinterleave(tensors, result_groups, flags_of_results(transformed->results, layout, hop->num_results()));
  add_fronts(results, fronts, layout);
  return results;
}

}  // namespace diptych::detail
