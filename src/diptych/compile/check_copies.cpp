#include "diptych/compile/check_copies.h"

#include <ATen/Functions.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/autograd/VariableTypeUtils.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>

#include "diptych/interpreter/run_guards.h"

namespace diptych::detail {
namespace {

namespace ag = torch::autograd;

/// Stands for the history of a copy. Gradients are taken where they arrive at it, so it never runs.
struct HistoryOfCopy final : ag::Node {
  ag::variable_list apply(ag::variable_list&&) override { return {}; }
};

bool has_memory(const at::Tensor& tensor) {
  return tensor.defined() && tensor.has_storage() && tensor.storage().nbytes() > 0 &&
         tensor.storage().data() != nullptr;
}

const ag::DifferentiableViewMeta* view_of(const at::Tensor& tensor) {
  const auto* meta = ag::impl::get_view_autograd_meta(tensor);
  return meta != nullptr && meta->has_bw_view() ? meta : nullptr;
}

struct PlainRun {
  RunBelowAutograd below;
  c10::impl::ExcludeDispatchKeyGuard no_modes{c10::python_ks};
};

}  // namespace

TensorCopies::TensorCopies(const std::vector<at::Tensor>& reals) {
  std::vector<at::Tensor> all;
  for (const at::Tensor& real : reals) {
    if (!real.defined()) continue;
    all.push_back(real);
    if (const auto* view = view_of(real)) all.push_back(view->get_backward_view().base_);
  }
  find_memories(all);
  for (const at::Tensor& real : reals) {
    copies_.push_back(real.defined() ? copy_of(real) : at::Tensor());
    const bool has_edge = real.defined() && copies_.back().requires_grad();
    edges_.push_back(has_edge ? ag::impl::gradient_edge(copies_.back()) : ag::Edge());
  }
}

void TensorCopies::find_memories(const std::vector<at::Tensor>& reals) {
  struct Span {
    const c10::StorageImpl* storage;
    const char* begin;
    const char* end;
    c10::Device device;
  };
  std::vector<Span> spans;
  for (const at::Tensor& real : reals) {
    if (!has_memory(real)) continue;
    const auto& storage = real.storage();
    const auto* begin = static_cast<const char*>(storage.data());
    spans.push_back({storage.unsafeGetStorageImpl(), begin, begin + storage.nbytes(), real.device()});
  }
  std::stable_sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) {
    if (a.device != b.device) return a.device.str() < b.device.str();
    return std::less<>()(a.begin, b.begin);
  });
  for (const Span& span : spans) {
    const bool is_next =
        memories_.empty() || memories_.back().device != span.device || !std::less<>()(span.begin, memories_.back().end);
    if (is_next) memories_.push_back({span.begin, span.end, span.device, {}});
    memories_.back().end = std::max(memories_.back().end, span.end, std::less<>());
    memory_of_.emplace(span.storage, memories_.size() - 1);
  }
  const PlainRun plain;
  const c10::InferenceMode normal(false);
  for (size_t i = 0; i < memories_.size(); ++i) {
    Memory& memory = memories_[i];
    const auto options = at::TensorOptions(at::kByte).device(memory.device);
    memory.bytes = at::from_blob(const_cast<char*>(memory.begin), {memory.end - memory.begin}, options).clone();
    memory_of_.emplace(memory.bytes.storage().unsafeGetStorageImpl(), i);
  }
}

at::Tensor TensorCopies::in_copied_memory(const at::Tensor& real) const {
  const Memory& memory = memories_[memory_of_.at(real.storage().unsafeGetStorageImpl())];
  const auto* address = static_cast<const char*>(real.storage().data()) + real.storage_offset() * real.itemsize();
  const auto distance = address - memory.begin;
  const auto itemsize = static_cast<int64_t>(real.itemsize());
  if (distance % itemsize != 0) return at::Tensor();
  auto copy =
      at::detail::make_tensor<c10::TensorImpl>(c10::Storage(memory.bytes.storage()), real.key_set(), real.dtype());
  copy.unsafeGetTensorImpl()->set_sizes_and_strides(real.sizes(), real.strides(), distance / itemsize);
  return copy;
}

const at::Tensor& TensorCopies::copy_of(const at::Tensor& real) {
  const auto found = known_.find(real.unsafeGetTensorImpl());
  if (found != known_.end()) return found->second.copy;
  Copy made{real, {}, false};
  const c10::InferenceMode mode(real.is_inference());
  if (has_memory(real)) made.copy = in_copied_memory(real);
  made.shares_layout = made.copy.defined();
  if (!made.copy.defined()) {
    const PlainRun plain;
    made.copy = at::empty_strided(real.sizes(), real.strides(), real.options()).copy_(real);
  }
  give_history(real, made.copy);
  return known_.emplace(real.unsafeGetTensorImpl(), std::move(made)).first->second.copy;
}

void TensorCopies::give_history(const at::Tensor& real, at::Tensor& copy) {
  if (const auto* view = view_of(real)) {
    const at::Tensor base = copy_of(view->get_backward_view().base_);
    copy = ag::as_view(base, copy, /*is_bw_differentiable=*/true, /*is_fw_differentiable=*/false, nullptr, nullptr,
                       view->get_creation_meta());
  }
  if (!real.requires_grad()) return;
  if (real.is_leaf()) {
    copy.unsafeGetTensorImpl()->set_requires_grad(true);
    return;
  }
  auto history = c10::make_intrusive<HistoryOfCopy>();
  const uint32_t place = history->add_input_metadata(copy);
  ag::impl::set_gradient_edge(copy, ag::Edge(std::move(history), place));
}

std::optional<size_t> TensorCopies::memory_of(const at::Tensor& tensor) const {
  if (!tensor.defined() || !tensor.has_storage()) return std::nullopt;
  const auto found = memory_of_.find(tensor.storage().unsafeGetStorageImpl());
  return found == memory_of_.end() ? std::nullopt : std::optional(found->second);
}

void TensorCopies::enter(Shadow& shadow) const {
  for (const auto& [impl, copy] : known_) shadow.exchange(copy.real, copy.copy, copy.shares_layout);
}

}  // namespace diptych::detail
