#include "diptych/hops/scan/blocked_scan.h"

#include <ATen/ops/cat.h>

#include "diptych/base/check.h"
#include "diptych/hops/strides.h"

namespace diptych::detail {
namespace {

using Tensors = std::vector<at::Tensor>;

struct BlockedLayout : ScanAttributes {
  explicit BlockedLayout(const Hop& hop)
      : ScanAttributes(ScanAttributes::of(hop.attributes())),
        num_carries(hop.group("init")),
        num_slices(hop.group("xs")),
        num_free(hop.group("free")),
        block(hop.attributes().integer("block")) {
    DIPTYCH_ASSERT(block > 0 && length % block == 0, "blocks of {} do not make {} steps", block, length);
  }
  size_t num_carries, num_slices, num_free;
  int64_t block;

  int64_t num_blocks() const { return length / block; }
  /// Returns where the slices of a block begin.
  int64_t place(int64_t number) const { return (reverse ? num_blocks() - 1 - number : number) * block; }
};

/// Calls `body` for each block: inputs to outputs. `keep` gets each block's rows.
template <class CallBody, class Keep>
Tensors each_block(const BlockedLayout& layout, const Tensors& operands, const CallBody& body, const Keep& keep) {
  const auto at = [&](size_t index) { return operands.begin() + static_cast<int64_t>(index); };
  const size_t first_free = layout.num_carries + layout.num_slices;
  Tensors carries(at(0), at(layout.num_carries));
  for (int64_t number = 0; number < layout.num_blocks(); ++number) {
    Tensors inputs = std::move(carries);
    for (size_t i = layout.num_carries; i < first_free; ++i) {
      inputs.push_back(operands[i].narrow(0, layout.place(number), layout.block));
    }
    inputs.insert(inputs.end(), at(first_free), operands.end());
    Tensors outputs = body(std::move(inputs));
    for (size_t i = layout.num_carries; i < outputs.size(); ++i) keep(number, i - layout.num_carries, outputs[i]);
    outputs.resize(layout.num_carries);
    carries = std::move(outputs);
  }
  return carries;
}

class BlockedKernel {
 public:
  explicit BlockedKernel(const Hop& hop) : body_(hop.bodies()[0]), results_(hop.results()), layout_(hop) {}

  Tensors operator()(Tensors&& operands) const {
    Tensors inputs = operands;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!is_slice(i)) inputs[i] = with_strides(inputs[i], body_->input(i));
    }
    Tensors stacks;
    for (size_t i = layout_.num_carries; i < results_.size(); ++i) {
      const at::Tensor& stack = stacks.emplace_back(empty_like_meta(results_[i]));
      const size_t index = i - layout_.num_carries;
      if (layout_.has_front(index)) {
        stack.select(0, layout_.reverse ? layout_.length : 0).copy_(inputs[layout_.fronts[index]]);
      }
    }
    const Program& program = body_->program();
    const auto run = [&](Tensors&& given) {
      for (size_t i = 0; i < layout_.num_carries + layout_.num_slices; ++i) {
        given[i] = with_strides(given[i], body_->input(i));
      }
      return program.run(std::move(given));
    };
    Tensors results = each_block(layout_, inputs, run, [&](int64_t number, size_t stack, const at::Tensor& rows) {
      const int64_t shift = layout_.has_front(stack) && !layout_.reverse ? 1 : 0;
      stacks[stack].narrow(0, layout_.place(number) + shift, layout_.block).copy_(rows);
    });
    results.insert(results.end(), stacks.begin(), stacks.end());
    own_results(results_, operands, results);
    return results;
  }

 private:
  bool is_slice(size_t operand) const {
    return operand >= layout_.num_carries && operand < layout_.num_carries + layout_.num_slices;
  }

  std::shared_ptr<const Body> body_;
  std::vector<TensorMeta> results_;
  BlockedLayout layout_;
};

}  // namespace

const BlockedScanOperator& BlockedScanOperator::get() {
  static const auto* const op = new BlockedScanOperator;
  return *op;
}

std::vector<TensorMeta> BlockedScanOperator::infer(const Hop& hop) const {
  const BlockedLayout layout(hop);
  return blocked_scan_results(*hop.body(0).graph(), layout.num_carries, layout);
}

HopFunction BlockedScanOperator::compile(const Hop& hop) const { return BlockedKernel(hop); }

Tensors BlockedScanOperator::call_with_grad(const HopPtr& hop, Tensors&& operands) const {
  const BlockedLayout layout(*hop);
  std::vector<Tensors> rows(hop->num_results() - layout.num_carries, Tensors(layout.num_blocks()));
  const auto run = [&](Tensors&& inputs) { return hop->body(0).run(std::move(inputs), {.differentiable = true}); };
  Tensors results = each_block(layout, operands, run, [&](int64_t number, size_t stack, const at::Tensor& block) {
    rows[stack][layout.place(number) / layout.block] = block;
  });
  for (size_t i = 0; i < rows.size(); ++i) {
    if (layout.has_front(i)) {
      const at::Tensor front = operands[layout.fronts[i]].unsqueeze(0);
      rows[i].insert(layout.reverse ? rows[i].end() : rows[i].begin(), front);
    }
    results.push_back(at::cat(rows[i]));
  }
  return results;
}

}  // namespace diptych::detail
