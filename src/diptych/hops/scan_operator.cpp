#include "diptych/hops/scan_operator.h"

#include "diptych/base/error.h"
#include "diptych/hops/draws.h"
#include "diptych/hops/strides.h"

namespace diptych {
namespace {

using Tensors = std::vector<at::Tensor>;

/// Runs the steps of one scan.
class ScanKernel {
 public:
  explicit ScanKernel(const Hop& hop) : body_(hop.bodies()[0]), results_(hop.results()), layout_(hop) {}

  Tensors operator()(Tensors&& operands) const {
    const Tensors kept = operands;  // until the results are known to be none of them
    Tensors carries = take_carries(operands);
    const Tensors sources = restrided(operands, layout_.num_carries, layout_.num_slices);
    const Tensors free = restrided(operands, layout_.num_carries + layout_.num_slices, layout_.num_free);
    operands.clear();
    Tensors stacks;
    for (size_t i = 0; i < layout_.num_stacks; ++i) {
      stacks.push_back(empty_like_meta(results_[layout_.num_carries + i]));
    }
    for (int64_t step = 0; step < layout_.length; ++step) {
      const int64_t at = layout_.reverse ? layout_.length - 1 - step : step;
      Tensors inputs = std::move(carries);
      for (const at::Tensor& source : sources) inputs.push_back(source.select(0, at));
      inputs.insert(inputs.end(), free.begin(), free.end());
      Tensors outputs = body_->program().run(std::move(inputs));
      for (size_t i = 0; i < stacks.size(); ++i) stacks[i].select(0, at).copy_(outputs[layout_.num_carries + i]);
      outputs.resize(layout_.num_carries);
      for (size_t i = 0; i < outputs.size(); ++i) outputs[i] = with_strides(outputs[i], body_->input(i));
      carries = std::move(outputs);
    }
    carries.insert(carries.end(), stacks.begin(), stacks.end());
    own_results(results_, kept, carries);
    return carries;
  }

 private:
  Tensors take_carries(Tensors& operands) const {
    Tensors carries;
    for (size_t i = 0; i < layout_.num_carries; ++i) {
      carries.push_back(with_strides(operands[i], body_->input(i)));
    }
    return carries;
  }
  Tensors restrided(const Tensors& operands, size_t begin, size_t count) const {
    Tensors result;
    for (size_t i = begin; i < begin + count; ++i) {
      const TensorMeta& input = body_->input(i);
      const bool is_slice = i < layout_.num_carries + layout_.num_slices;
      result.push_back(is_slice ? with_slice_strides(operands[i], input) : with_strides(operands[i], input));
    }
    return result;
  }
  at::Tensor with_slice_strides(const at::Tensor& source, const TensorMeta& slice) const {
    if (layout_.length == 0 || with_strides(source.select(0, 0), slice).is_alias_of(source)) return source;
    return with_strides(source, stacked(slice, layout_.length));
  }

  std::shared_ptr<const Body> body_;  // and not the hop, which holds this
  std::vector<TensorMeta> results_;
  detail::ScanLayout layout_;
};

}  // namespace

detail::ScanLayout::ScanLayout(const Hop& scan)
    : num_carries(scan.groups().at(0)),
      num_slices(scan.groups().at(1)),
      num_free(scan.groups().at(2)),
      num_stacks(scan.body(0).num_results() - num_carries),
      length(scan.constants().at(0).toInt()),
      reverse(scan.constants().at(1).toBool()) {
  DIPTYCH_ASSERT(scan.body(0).num_inputs() == scan.num_operands(), "a scan's body takes {} inputs, the scan has {}",
                 scan.body(0).num_inputs(), scan.num_operands());
}

const ScanOperator& ScanOperator::get() {
  static const auto* const op = new ScanOperator;
  return *op;
}

std::vector<TensorMeta> ScanOperator::infer(const Hop& hop) const {
  const detail::ScanLayout layout(hop);
  std::vector<TensorMeta> metas;
  for (size_t i = 0; i < layout.num_carries; ++i) metas.push_back(hop.body(0).input(i));
  for (size_t i = 0; i < layout.num_stacks; ++i) {
    metas.push_back(stacked(hop.body(0).result(layout.num_carries + i), layout.length));
  }
  return metas;
}

HopFunction ScanOperator::compile(const Hop& hop) const { return ScanKernel(hop); }

HigherOrderOperator::LiftedDraws ScanOperator::lift_draws(const Hop& hop) const {
  const detail::ScanLayout layout(hop);
  const auto bodies =
      detail::split_draws(*hop.body(0).graph(), layout.num_carries, layout.num_carries + layout.num_slices);
  const auto scan_of = [&](std::shared_ptr<const Graph> graph, size_t num_slices) {
    return make_scan(std::make_shared<const Body>(std::move(graph)), layout.num_carries, num_slices, layout.length,
                     layout.reverse);
  };
  return {scan_of(bodies.draws, layout.num_slices), scan_of(bodies.rest, layout.num_slices + bodies.num_draws), 1,
          layout.num_carries};
}

HopPtr make_scan(std::shared_ptr<const Body> body, size_t num_carries, size_t num_slices, int64_t length,
                 bool reverse) {
  const size_t num_free = body->num_inputs() - num_carries - num_slices;
  return std::make_shared<const Hop>(ScanOperator::get(), std::vector<std::shared_ptr<const Body>>{std::move(body)},
                                     std::vector<size_t>{num_carries, num_slices, num_free},
                                     std::vector<c10::IValue>{length, reverse});
}

}  // namespace diptych
