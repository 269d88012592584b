#include "diptych/compile/tensor_guards.h"

#include <fmt/format.h>

#include <torch/csrc/autograd/variable.h>

#include <bit>

#include "diptych/trace/recorder.h"

namespace diptych {
namespace {

[[gnu::always_inline]] inline const c10::StorageImpl* storage_of(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.has_storage()) return nullptr;
  return tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
}

// An open-addressing table from storage to the first tensor that has it, kept per thread so that a check allocates
// nothing.
class StorageTable {
 public:
  void start(size_t count) {
    const size_t wanted = std::bit_ceil(count * 2 + 1);
    // Entries of earlier checks are told by their epoch, until that comes round.
    if (slots_.size() < wanted || ++epoch_ == 0) {
      slots_.assign(std::max(wanted, slots_.size()), {});
      epoch_ = 1;
    }
  }
  /// The position under which `storage` was first added, which is `position` if it is new.
  uint32_t add(const c10::StorageImpl* storage, uint32_t position) {
    const size_t mask = slots_.size() - 1;
    size_t index = (reinterpret_cast<uintptr_t>(storage) * 0x9e3779b97f4a7c15ULL >> 20) & mask;
    while (slots_[index].epoch == epoch_) {
      // Storages without bytes can't overlap.
      if (slots_[index].storage == storage) return storage->nbytes() == 0 ? position : slots_[index].position;
      index = (index + 1) & mask;
    }
    slots_[index] = {storage, epoch_, position};
    return position;
  }

 private:
  struct Entry {
    const c10::StorageImpl* storage = nullptr;
    uint32_t epoch = 0;
    uint32_t position = 0;
  };
  std::vector<Entry> slots_;
  uint32_t epoch_ = 0;
};

// Calls `visit(position, first position with the same storage)` until it returns false.
template <class Visit>
bool visit_sharing(c10::ArrayRef<const at::Tensor*> tensors, const Visit& visit) {
  thread_local StorageTable table;
  table.start(tensors.size());
  for (uint32_t i = 0; i < tensors.size(); ++i) {
    const c10::StorageImpl* storage = storage_of(*tensors[i]);
    if (!visit(i, storage == nullptr ? i : table.add(storage, i))) return false;
  }
  return true;
}

// What autograd says of a tensor, read off its fields: the functions for it go through several libraries.
struct AutogradFacts {
  explicit AutogradFacts(const c10::TensorImpl& impl) {
    const auto* meta = static_cast<const torch::autograd::AutogradMeta*>(impl.autograd_meta());
    if (meta == nullptr) return;
    requires_grad = meta->is_view_ ? meta->requires_grad() : meta->requires_grad_ || meta->grad_fn_;
    is_leaf = !requires_grad || !meta->grad_fn_;
  }
  bool requires_grad = false;
  bool is_leaf = true;
};

bool equal(c10::IntArrayRef values, const int64_t* expected) {
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] != expected[i]) return false;
  }
  return true;
}

}  // namespace

// Inlined by force, as it runs for each input of each call.
[[gnu::always_inline]] inline TensorGuards::Facts TensorGuards::facts_of(const at::Tensor& tensor, uint32_t geometry) {
  if (!tensor.defined()) {
    return {at::ScalarType::Undefined, false, true, false, c10::kCPU, c10::kStrided, 0, geometry};
  }
  const c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  const AutogradFacts autograd(*impl);
  return {c10::typeMetaToScalarType(impl->dtype()),
          autograd.requires_grad,
          autograd.is_leaf,
          true,
          impl->device(),
          impl->layout(),
          static_cast<uint32_t>(impl->dim()),
          geometry};
}

[[gnu::always_inline]] inline bool TensorGuards::same_geometry(const at::Tensor& tensor, const Facts& facts) const {
  const c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  const int64_t* expected = geometry_.data() + facts.geometry;
  return equal(impl->sizes(), expected) && equal(impl->strides(), expected + facts.dim);
}

TensorGuards::Sharing TensorGuards::sharing_of(c10::ArrayRef<const at::Tensor*> tensors, uint32_t index,
                                               uint32_t first) {
  if (first == index) return {first};
  const at::Tensor& tensor = *tensors[index];
  const at::Tensor& other = *tensors[first];
  return {first, tensor.storage_offset() - other.storage_offset(), tensor.is_same(other),
          detail::autograd_base(tensor).is_same(detail::autograd_base(other))};
}

TensorGuards::TensorGuards(c10::ArrayRef<const at::Tensor*> tensors) {
  for (const at::Tensor* tensor : tensors) {
    facts_.push_back(facts_of(*tensor, static_cast<uint32_t>(geometry_.size())));
    if (!tensor->defined() || tensor->layout() != c10::kStrided) continue;
    geometry_.insert(geometry_.end(), tensor->sizes().begin(), tensor->sizes().end());
    geometry_.insert(geometry_.end(), tensor->strides().begin(), tensor->strides().end());
  }
  visit_sharing(tensors, [&](uint32_t i, uint32_t first) {
    sharing_.push_back(sharing_of(tensors, i, first));
    return true;
  });
}

bool TensorGuards::matches(c10::ArrayRef<const at::Tensor*> tensors) const {
  c10::SmallVector<int64_t, 64> geometry;
  for (const at::Tensor* tensor : tensors) {
    if (!tensor->defined() || tensor->layout() != c10::kStrided) continue;
    geometry.append(tensor->sizes().begin(), tensor->sizes().end());
    geometry.append(tensor->strides().begin(), tensor->strides().end());
  }
  return pattern_->match(geometry).has_value();
}

bool TensorGuards::check(c10::ArrayRef<const at::Tensor*> tensors) const {
  if (tensors.size() != facts_.size()) return false;
  if (pattern_ && !matches(tensors)) return false;
  return visit_sharing(tensors, [&](uint32_t i, uint32_t first) {
    const Facts& facts = facts_[i];
    if (!(facts_of(*tensors[i], facts.geometry) == facts)) return false;
    if (facts.defined && !pattern_ && !same_geometry(*tensors[i], facts)) return false;
    // Most tensors share with none, and are told so by their own position.
    return first == i ? sharing_[i].first == i : sharing_[i] == sharing_of(tensors, i, first);
  });
}

std::string TensorGuards::first_failure(c10::ArrayRef<const at::Tensor*> tensors,
                                        const std::function<std::string(size_t)>& path_of) const {
  if (tensors.size() != facts_.size())
    return fmt::format("there were {} tensors, are {}", facts_.size(), tensors.size());
  const bool sizes_fit = pattern_ && matches(tensors);
  for (size_t i = 0; i < facts_.size(); ++i) {
    const Facts& then = facts_[i];
    const Facts now = facts_of(*tensors[i], then.geometry);
    const auto says = [&](const char* what, const auto& was, const auto& is) {
      return fmt::format("{}: {} was {}, is {}", path_of(i), what, c10::str(was), c10::str(is));
    };
    if (now.defined != then.defined) return says("definedness", then.defined, now.defined);
    if (now.dtype != then.dtype) return says("dtype", then.dtype, now.dtype);
    if (now.device != then.device) return says("device", then.device, now.device);
    if (now.layout != then.layout) return says("layout", then.layout, now.layout);
    if (now.requires_grad != then.requires_grad) return says("requires_grad", then.requires_grad, now.requires_grad);
    if (now.is_leaf != then.is_leaf) return says("is_leaf", then.is_leaf, now.is_leaf);
    const c10::IntArrayRef sizes(geometry_.data() + then.geometry, then.dim);
    const c10::IntArrayRef strides(geometry_.data() + then.geometry + then.dim, then.dim);
    if (sizes_fit) continue;
    if (now.dim != then.dim || (now.defined && tensors[i]->sizes() != sizes))
      return says("size", sizes, tensors[i]->sizes());
    if (now.defined && tensors[i]->strides() != strides) return says("stride", strides, tensors[i]->strides());
  }
  std::string text;
  visit_sharing(tensors, [&](uint32_t i, uint32_t first) {
    if (sharing_[i] == sharing_of(tensors, i, first)) return true;
    text = fmt::format("{}: which other inputs share its storage has changed", path_of(i));
    return false;
  });
  return text;
}

}  // namespace diptych
