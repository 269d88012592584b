// Results laid out in memory as eager lays them out, where the functional operator that stands for an in-place one
// differs.
#include <ATen/FunctionalTensorWrapper.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/_to_copy.h>

#include "diptych/ops/tags.h"
#include "diptych/trace/memory_order.h"
#include "diptych/trace/recorder.h"

namespace diptych::detail {
namespace {

// Goes from a value to what its chain of views starts from, and says whether `op` was among them an odd number of
// times.
bool is_odd_in_views(const Op& op, const Graph& graph, Value& value) {
  bool found = false;
  const Node* node = graph.producer(value);
  for (; node != nullptr && has_tag(node->op, Tag::kView); node = graph.producer(value)) {
    found = found != (node->op == op);
    value = std::get<Value>(node->operands[0]);
  }
  return found;
}

}  // namespace

// aten::copy is what functionalization makes of copy_; autograd has no formula for it, so it is recorded as the cast,
// expansion and clone that it is.
bool Recorder::record_as_copy_of_source(torch::jit::Stack* stack) {
  const size_t begin = stack->size() - 3;
  const at::Tensor self = (*stack)[begin].toTensor();
  const at::Tensor source = (*stack)[begin + 1].toTensor();
  if (self.device() != source.device()) return false;
  const at::Tensor cast = source.scalar_type() == self.scalar_type() ? source : at::_to_copy(source, self.options());
  const at::Tensor expanded = cast.sizes() == self.sizes() ? cast : cast.expand(self.sizes());
  stack->resize(begin);
  stack->emplace_back(self.is_contiguous() || !self.is_non_overlapping_and_dense()
                          ? at::clone(expanded, at::MemoryFormat::Contiguous)
                          : clone_in_order(expanded, MemoryOrder(self.strides())));
  return true;
}

// bernoulli_ draws in the order of memory, gaps or none, and bernoulli in the order of indices. A mask must be eager's
// mask, so where they differ the draw is recorded on the dimensions in the order of memory.
bool Recorder::record_in_memory_order(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const size_t begin = stack->size() - op.schema().arguments().size();
  const at::Tensor self = (*stack)[begin].toTensor();
  const MemoryOrder memory(self.strides());
  if (front_ == &op.schema() || self.is_contiguous() || std::is_sorted(memory.order.begin(), memory.order.end()))
    return false;
  (*stack)[begin] = self.permute(memory.order);
  op.callBoxed(stack);
  stack->back() = stack->back().toTensor().permute(memory.inverse);
  return true;
}

// Whether what runs in the graph is conjugated lazily: by the views that made it, or as the caller's tensor is.
bool Recorder::is_conjugate_view(Value value) const {
  static const Op kConj = Op::find("aten._conj");
  const bool found = is_odd_in_views(kConj, graph_, value);
  const auto is_of_value = [&](const Primal& primal) { return primal.value == value && primal.real.defined(); };
  const auto primal = std::find_if(primals_.begin(), primals_.end(), is_of_value);
  return found != (graph_.producer(value) == nullptr && primal != primals_.end() && primal->real.is_conj());
}

// A base whose new elements came by way of a conjugate view, or a negative one, holds them as they are, as in eager,
// and not as the conjugate of what was written.
void Recorder::resolve_base(const at::Tensor& tensor) {
  auto* wrapper = at::functionalization::impl::unsafeGetFunctionalWrapper(tensor);
  if (wrapper->view_metas().empty()) return;
  auto* storage = static_cast<at::functionalization::FunctionalStorageImpl*>(tensor.storage().unsafeGetStorageImpl());
  wrapper->apply_updates();
  static const Op kNegative = Op::find("aten._neg_view");
  Value value = as_fake(storage->base())->value;
  if (!is_conjugate_view(value) && !is_odd_in_views(kNegative, graph_, value)) return;
  replace_base(tensor);
}

// The function's own code, and operators that take views, see the strides of what an in-place operator wrote to.
void Recorder::restore_layout(const at::Tensor& tensor, c10::IntArrayRef strides) {
  auto* wrapper = at::functionalization::impl::unsafeGetFunctionalWrapper(tensor);
  at::functionalization::impl::sync(tensor);
  const at::Tensor& value = wrapper->value();
  if (has_layout(value, strides) || !as_fake(value)->meta().is_non_overlapping_and_dense()) return;
  int64_t extent = 1;
  for (int64_t d = 0; d < value.dim(); ++d) extent += (value.size(d) - 1) * strides[d];
  if (extent != value.numel()) return;  // it had gaps, which a value of the graph has not
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const at::AutoDispatchSkipFunctionalize below_functionalization;
  wrapper->replace_(clone_in_order(value, MemoryOrder(strides)));
  wrapper->commit_update();
}

}  // namespace diptych::detail
