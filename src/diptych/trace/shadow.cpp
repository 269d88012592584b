#include "diptych/trace/shadow.h"

#include <ATen/Functions.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <utility>

#include "diptych/ops/dispatch_keys.h"
#include "diptych/trace/dispatch.h"
#include "diptych/trace/exchange_tensors.h"
#include "diptych/trace/location.h"
#include "diptych/trace/recorder.h"
#include "diptych/trace/stack_tensors.h"

namespace diptych::detail {
namespace {

thread_local Shadow* current_shadow = nullptr;

// A reader can't use more, and a Python loop may call millions of operators.
constexpr size_t kMostRecords = 100000;

const c10::StorageImpl* storage_of(const at::Tensor& tensor) {
  return tensor.defined() && tensor.has_storage() ? tensor.storage().unsafeGetStorageImpl() : nullptr;
}

// Whether the operators of a tensor don't come to kFakeKey, since its layout has a key above that.
bool passes_by(const at::Tensor& tensor) {
  constexpr c10::DispatchKeySet kAbove(c10::DispatchKeySet::FULL_AFTER, kSelectKey);
  constexpr c10::DispatchKeySet kBelow(c10::DispatchKeySet::FULL_AFTER, kFakeKey);
  return tensor.defined() && !((tensor.key_set() & kAbove) - kBelow - c10::DispatchKeySet(kFakeKey)).empty();
}

template <class Visit>
void for_each_tensor(const c10::IValue& value, const Visit& visit) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) visit(value.toTensor());
  } else if (value.isTensorList()) {
    for (const at::Tensor& tensor : value.toTensorVector()) visit(tensor);
  }
}

}  // namespace

std::string plain_operator_name(std::string_view name) {
  if (const auto separator = name.rfind("::"); separator != name.npos) name.remove_prefix(separator + 2);
  if (const auto space = name.find('.');
      space != name.npos && (name.starts_with("aten.") || name.starts_with("hop."))) {
    name.remove_prefix(space + 1);
  }
  name = name.substr(0, name.find('.'));
  if (name.ends_with('_') && !name.ends_with("__")) name.remove_suffix(1);
  return std::string(name);
}

Shadow* Shadow::current() { return current_shadow; }

bool runs_inlined() { return current_shadow != nullptr || Recorder::current() != nullptr; }

void Shadow::exchange(const at::Tensor& real, const at::Tensor& copy, bool shares_layout) {
  exchanges_.emplace(real.unsafeGetTensorImpl(), Exchange{real, copy, shares_layout});
  own_storages_.insert(storage_of(copy));
}

const at::Tensor& Shadow::copy_of(const at::Tensor& tensor) const {
  if (!tensor.defined()) return tensor;
  const auto found = exchanges_.find(tensor.unsafeGetTensorImpl());
  return found == exchanges_.end() ? tensor : found->second.copy;
}

// The storage of a real tensor is set to begin as far before the copy's memory as it began before the real tensor.
void Shadow::lend_all() {
  for (const auto& [impl, exchange] : exchanges_) {
    const auto& [real, copy, shares_layout] = exchange;
    if (!shares_layout || own_storages_.contains(storage_of(real))) continue;
    const auto before = real.storage_offset() * static_cast<int64_t>(real.itemsize());
    lend(real.storage(), static_cast<char*>(copy.mutable_data_ptr()) - before);
  }
}

void Shadow::lend(const c10::Storage& storage, void* memory) {
  c10::DataPtr& held = storage.unsafeGetStorageImpl()->_mutable_data_ptr_no_checks();
  c10::DataPtr own = std::exchange(held, c10::DataPtr(memory, held.device()));
  loans_.push_back({storage, std::move(own)});
  own_storages_.insert(storage.unsafeGetStorageImpl());  // an alias that was not exchanged writes to the copy's memory
}

void Shadow::restore() {
  for (Loan& loan : loans_) {
    loan.storage.unsafeGetStorageImpl()->_mutable_data_ptr_no_checks() = std::move(loan.own);
    own_storages_.erase(loan.storage.unsafeGetStorageImpl());
  }
  loans_.clear();
  for (const auto& [tensor, version] : versions_) {
    c10::VariableVersion counter = tensor.unsafeGetTensorImpl()->version_counter();
    counter.set_version(version);
  }
  versions_.clear();
}

void Shadow::protect(const at::Tensor& tensor) {
  const auto* storage = storage_of(tensor);
  if (storage == nullptr || storage->data() == nullptr || storage->nbytes() == 0) return;
  if (own_storages_.contains(storage)) return;
  const at::AutoDispatchBelowADInplaceOrView below;
  const BelowTraceGuard plain(c10::python_ks | kNotOnMeta);
  const auto bytes = at::TensorOptions(at::kByte).device(tensor.device());
  const at::Tensor scratch =
      at::from_blob(const_cast<void*>(storage->data()), {static_cast<int64_t>(storage->nbytes())}, bytes).clone();
  if (!tensor.is_inference()) versions_.emplace_back(tensor, tensor._version());
  writes_.push_back({tensor, scratch});
  lend(tensor.storage(), scratch.mutable_data_ptr());
}

void Shadow::protect_written(const c10::OperatorHandle& op, const OperatorPlan& plan, const torch::jit::Stack& stack) {
  const auto& arguments = op.schema().arguments();
  const size_t begin = stack.size() - arguments.size();
  const int hidden = plan.hidden_mutation ? plan.hidden_mutation->mutated_argument : -1;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const auto* alias = arguments[i].alias_info();
    const auto place = static_cast<int>(i);
    // Operators with an undeclared mutation write to two arguments, one behind the other: running mean and variance.
    const bool is_hidden = hidden >= 0 && (place == hidden || place == hidden + 1);
    if ((alias == nullptr || !alias->isWrite()) && !is_hidden) continue;
    for_each_tensor(stack[begin + i], [&](const at::Tensor& tensor) { protect(tensor); });
  }
}

void Shadow::note_results(const torch::jit::Stack& stack, size_t begin,
                          const std::unordered_set<const c10::StorageImpl*>& given) {
  for (size_t i = begin; i < stack.size(); ++i) {
    for_each_tensor(stack[i], [&](const at::Tensor& result) {
      if (const auto* storage = storage_of(result); given.count(storage) == 0) own_storages_.insert(storage);
    });
  }
}

void Shadow::call_in_front(const c10::OperatorHandle& op, const OperatorPlan& plan, c10::DispatchKeySet below,
                           torch::jit::Stack* stack) {
  const auto is_real = [&](const at::Tensor& tensor) {
    return tensor.defined() && exchanges_.count(tensor.unsafeGetTensorImpl()) != 0;
  };
  exchange_tensors(plan, *stack, is_real, [&](const at::Tensor& tensor) { return copy_of(tensor); });
  if (plan.is_composite) return op.redispatchBoxed(below, stack);
  const c10::impl::ExcludeDispatchKeyGuard guard(kFrontKey);
  if (!any_tensor(*stack, plan, passes_by)) return op.redispatchBoxed(below, stack);
  protect_written(op, plan, *stack);
  const size_t begin = stack->size() - plan.takes_tensor.size();
  op.redispatchBoxed(below, stack);
  if (!plan.is_view) note_results(*stack, begin, {});
}

void Shadow::call_below(const c10::OperatorHandle& op, const OperatorPlan& plan, c10::DispatchKeySet keys,
                        torch::jit::Stack* stack) {
  // Memory from outside that a new tensor is made of, as by from_numpy(), belongs to the function.
  std::unordered_set<const c10::StorageImpl*> given;
  if (plan.trait != TraceTrait::kLiftsLiteral) {
    any_tensor(*stack, plan, [&](const at::Tensor& tensor) { return given.insert(storage_of(tensor)), false; });
  }
  protect_written(op, plan, *stack);
  const size_t begin = stack->size() - plan.takes_tensor.size();
  {
    const BelowTraceGuard guard(c10::DispatchKeySet({kFakeKey, kFrontKey}));
    redispatch_below(op, plan, keys, stack);
  }
  note_results(*stack, begin, given);
  if (plan.is_view || records_.size() == kMostRecords) return;
  OperatorRecord record{plain_operator_name(op.operator_name().name), current_place().str(), {}};
  for (size_t i = begin; i < stack->size(); ++i) {
    for_each_tensor((*stack)[i], [&](const at::Tensor& result) { record.results.push_back(ValueSketch::of(result)); });
  }
  if (!record.results.empty()) records_.push_back(std::move(record));
}

ShadowGuard::ShadowGuard(Shadow& shadow, bool lends_memory)
    : outer_(std::exchange(current_shadow, &shadow)),
      shadow_(shadow),
      saved_keys_(c10::impl::tls_local_dispatch_key_set()) {
  auto keys = saved_keys_;
  const c10::DispatchKeySet watched({kFakeKey, kFrontKey});
  keys.included_ = keys.included_ | watched;
  keys.excluded_ = (keys.excluded_ - watched - c10::DispatchKeySet(kMetaMark)) | c10::DispatchKeySet(kSelectKey);
  c10::impl::_force_tls_local_dispatch_key_set(keys);
  if (lends_memory) shadow.lend_all();
  link_dispatch_kernels();
}

ShadowGuard::~ShadowGuard() {
  shadow_.restore();
  c10::impl::_force_tls_local_dispatch_key_set(saved_keys_);
  current_shadow = outer_;
}

}  // namespace diptych::detail
