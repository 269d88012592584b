#include "diptych/trace/eager_layout.h"

#include <ATen/EmptyTensor.h>
#include <ATen/FunctionalStorageImpl.h>
#include <ATen/FunctionalTensorWrapper.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/_to_copy.h>
#include <ATen/ops/as_strided.h>
#include <ATen/ops/clone.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/new_empty.h>

#include <algorithm>

#include "diptych/ops/tags.h"
#include "diptych/trace/memory_order.h"
#include "diptych/trace/place_in_storage.h"

namespace diptych::detail {
namespace {

// Goes from a value to what its chain of views starts from, and returns whether an odd number of them has `tag`.
bool is_odd_in_views(Tag tag, const Graph& graph, Value& value) {
  bool found = false;
  const auto is_view = [](const Node* node) {
    return node != nullptr && (has_tag(node->op, Tag::kView) || has_tag(node->op, Tag::kSharesStorage));
  };
  for (const Node* node = graph.producer(value); is_view(node); node = graph.producer(value)) {
    found = found != has_tag(node->op, tag);
    value = std::get<Value>(node->operands[0]);
  }
  return found;
}

// Whether a value is lazy: by the views that made it, which have `tag`, or because the tensor of the caller has `bit`.
bool is_lazy(const Recorder& recorder, Value value, Tag tag, bool (at::TensorBase::*bit)() const) {
  const bool found = is_odd_in_views(tag, recorder.graph(), value);
  const Primal* primal =
      recorder.graph().producer(value) == nullptr ? recorder.primal_table().of_value(value) : nullptr;
  return found != (primal != nullptr && (primal->real.*bit)());
}

// LibTorch's own callers pass sizes as SymInts.
std::vector<int64_t> whole_numbers(const c10::IValue& list) {
  if (list.isIntList()) return list.toIntVector();
  std::vector<int64_t> numbers;
  for (const c10::SymInt& number : list.toSymIntVector()) numbers.push_back(number.expect_int());
  return numbers;
}

}  // namespace

bool record_as_copy_of_source(torch::jit::Stack* stack) {
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

bool make_as_view(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const size_t count = op.schema().arguments().size(), begin = stack->size() - count;
  const auto argument = [&](size_t from_end) -> const c10::IValue& { return (*stack)[stack->size() - from_end]; };
  const auto sizes = whole_numbers(argument(6)), strides = whole_numbers(argument(5));
  const bool is_plain = sizes.size() != strides.size() || c10::multiply_integers(sizes) == 0 ||
                        std::any_of(strides.begin(), strides.end(), [](int64_t stride) { return stride < 0; });
  if (is_plain || is_dense(sizes, strides)) return false;
  const auto options = at::TensorOptions()
                           .dtype(argument(4).toOptional<at::ScalarType>())
                           .layout(argument(3).toOptional<at::Layout>())
                           .device(argument(2).toOptional<at::Device>())
                           .pinned_memory(argument(1).toOptional<bool>());
  const auto extent = static_cast<int64_t>(at::detail::computeStorageNbytes(sizes, strides, /*itemsize_bytes=*/1));
  const bool is_like_another = count == 7;
  const at::Tensor base =
      is_like_another ? (*stack)[begin].toTensor().new_empty({extent}, options) : at::empty({extent}, options);
  stack->resize(begin);
  stack->push_back(base.as_strided(sizes, strides));
  return true;
}

bool record_in_memory_order(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const size_t begin = stack->size() - op.schema().arguments().size();
  const at::Tensor self = (*stack)[begin].toTensor();
  const MemoryOrder memory(self.strides());
  if (self.is_contiguous() || std::is_sorted(memory.order.begin(), memory.order.end())) return false;
  (*stack)[begin] = self.permute(memory.order);
  op.callBoxed(stack);
  stack->back() = stack->back().toTensor().permute(memory.inverse);
  return true;
}

bool is_conjugate_view(const Recorder& recorder, Value value) {
  return is_lazy(recorder, value, Tag::kConjugates, &at::TensorBase::is_conj);
}

bool is_negative_view(const Recorder& recorder, Value value) {
  return is_lazy(recorder, value, Tag::kNegates, &at::TensorBase::is_neg);
}

bool resolve_lazy_view(Recorder& recorder, const OperatorPlan& plan, torch::jit::Stack* stack) {
  const bool conjugates = plan.trait == TraceTrait::kResolvesConjugate;
  if (!conjugates && plan.trait != TraceTrait::kResolvesNegative) return false;
  const at::Tensor self = stack->back().toTensor();
  if (!recorder.owns(self)) return false;
  if (conjugates && !self.is_complex()) return false;
  // By the views that it was taken by: what has been written to a lazy tensor is computed, and the tensor stays lazy.
  const StoragePlace place = place_in_storage(self);
  const bool is_lazy = conjugates ? place.is_conjugate : place.is_negative;
  if (is_lazy) stack->back() = self.clone();
  return is_lazy;
}

void resolve_base(Recorder& recorder, const at::Tensor& tensor) {
  if (steps_of(tensor).empty()) return;
  at::functionalization::impl::unsafeGetFunctionalWrapper(tensor)->apply_updates();
  auto* storage = static_cast<at::functionalization::FunctionalStorageImpl*>(tensor.storage().unsafeGetStorageImpl());
  const Value value = as_fake(storage->base())->value;
  if (!is_conjugate_view(recorder, value) && !is_negative_view(recorder, value)) return;
  replace_base(tensor);
}

void restore_layout(const at::Tensor& tensor, c10::IntArrayRef strides) {
  auto* wrapper = at::functionalization::impl::unsafeGetFunctionalWrapper(tensor);
  at::functionalization::impl::sync(tensor);
  const at::Tensor& value = wrapper->value();
  if (has_layout(value, strides) || !as_fake(value)->meta().is_non_overlapping_and_dense()) return;
  int64_t extent = 1;
  for (int64_t d = 0; d < value.dim(); ++d) extent += (value.size(d) - 1) * strides[d];
  if (extent != value.numel()) return;  // the layout has gaps; graph values are dense
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const at::AutoDispatchSkipFunctionalize below_functionalization;
  wrapper->replace_(clone_in_order(value, MemoryOrder(strides)));
  wrapper->commit_update();
}

void replace_base(const at::Tensor& base) {
  auto* storage = static_cast<at::functionalization::FunctionalStorageImpl*>(base.storage().unsafeGetStorageImpl());
  at::functionalization::impl::unsafeGetFunctionalWrapper(base)->apply_updates();
  at::Tensor copy;
  {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    const at::AutoDispatchSkipFunctionalize below_functionalization;
    copy = at::clone(storage->base());
  }
  storage->add_update(copy, {});
  at::functionalization::impl::sync(base);
}

}  // namespace diptych::detail
