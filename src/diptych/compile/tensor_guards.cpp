#include "diptych/compile/tensor_guards.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "diptych/trace/autograd_facts.h"
#include "diptych/trace/memory_overlap.h"
#include "diptych/trace/recorder.h"
#include "diptych/trace/transforms.h"

namespace diptych::detail {
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
    // The epoch tells entries of earlier checks from those of this one, until it wraps around.
    if (slots_.size() < wanted || ++epoch_ == 0) {
      slots_.assign(std::max(wanted, slots_.size()), {});
      epoch_ = 1;
    }
  }
  /// Returns the position under which `storage` was first added, which is `position` if it is new.
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

// Whether a tensor may be one that no capture was made for. The base of a view may have a tangent.
[[gnu::always_inline]] inline bool may_be_transformed(const at::Tensor& tensor) {
  const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  if (impl.key_set().has_any(detail::kTransformedKeys)) [[unlikely]]
    return true;
  const auto* meta = static_cast<const torch::autograd::AutogradMeta*>(impl.autograd_meta());
  return meta != nullptr && (meta->fw_grad_ || meta->is_view_) && detail::has_tangent(tensor);
}

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
    return {.dtype = at::ScalarType::Undefined, .is_leaf = true, .device = c10::kCPU, .geometry = geometry};
  }
  const c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  const detail::AutogradFacts autograd(*impl);
  return {c10::typeMetaToScalarType(impl->dtype()),
          autograd.requires_grad,
          autograd.is_leaf,
          true,
          impl->device(),
          impl->layout(),
          impl->is_conj(),
          impl->is_neg(),
          tensor.is_inference(),
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

// Returns the storages that share memory, found in the order of their addresses: each with the earliest tensor of the
// list among all that it is connected with.
std::vector<TensorGuards::Lent> TensorGuards::lent_memory(c10::ArrayRef<const at::Tensor*> tensors) {
  struct Block {
    detail::MemoryRange range;
    uint32_t tensor;
  };
  std::vector<Block> blocks;
  bool any_lent = false;
  visit_sharing(tensors, [&](uint32_t i, uint32_t first) {
    const c10::StorageImpl* storage = storage_of(*tensors[i]);
    if (first != i || storage == nullptr) return true;
    any_lent |= detail::is_lent(*storage);
    const auto range = detail::MemoryRange::of(*storage);
    if (range.begin < range.end) blocks.push_back({range, i});
    return true;
  });
  if (!any_lent) return {};
  std::sort(blocks.begin(), blocks.end(), [](const Block& a, const Block& b) {
    return std::pair(a.range.begin, a.tensor) < std::pair(b.range.begin, b.tensor);
  });
  const auto address = [&](uint32_t tensor) {
    return static_cast<int64_t>(detail::MemoryRange::of(*storage_of(*tensors[tensor])).begin) +
           tensors[tensor]->storage_offset() * static_cast<int64_t>(tensors[tensor]->itemsize());
  };
  std::vector<Lent> lent;
  for (size_t begin = 0, last = 0; begin < blocks.size(); begin = last) {
    uintptr_t end = blocks[begin].range.end;
    uint32_t first = blocks[begin].tensor;
    for (last = begin + 1; last < blocks.size() && blocks[last].range.begin < end; ++last) {
      end = std::max(end, blocks[last].range.end);
      first = std::min(first, blocks[last].tensor);
    }
    for (size_t i = begin; i < last; ++i) {
      const uint32_t tensor = blocks[i].tensor;
      if (tensor != first) lent.push_back({tensor, first, address(tensor) - address(first)});
    }
  }
  std::sort(lent.begin(), lent.end(), [](const Lent& a, const Lent& b) { return a.tensor < b.tensor; });
  return lent;
}

bool TensorGuards::same_lent_memory(c10::ArrayRef<const at::Tensor*> tensors) const {
  if (memory_ == Memory::kByStorage) return true;
  const auto is_lent = [](const at::Tensor* tensor) {
    const c10::StorageImpl* storage = storage_of(*tensor);
    return storage != nullptr && detail::is_lent(*storage);
  };
  if (lent_.empty() && std::none_of(tensors.begin(), tensors.end(), is_lent)) return true;
  return lent_memory(tensors) == lent_;
}

size_t TensorGuards::first_other_offset(c10::ArrayRef<const at::Tensor*> tensors) const {
  const auto is_other = [&](const Offset& then) { return tensors[then.tensor]->storage_offset() != then.offset; };
  return std::find_if(offsets_.begin(), offsets_.end(), is_other) - offsets_.begin();
}

TensorGuards::TensorGuards(c10::ArrayRef<const at::Tensor*> tensors, Memory memory,
                           c10::ArrayRef<size_t> counted_offsets)
    : memory_(memory) {
  for (const size_t tensor : counted_offsets) offsets_.push_back({tensor, tensors[tensor]->storage_offset()});
  if (memory == Memory::kByAddress) lent_ = lent_memory(tensors);
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

std::optional<SymbolValues> TensorGuards::match(c10::ArrayRef<const at::Tensor*> tensors) const {
  c10::SmallVector<int64_t, 64> geometry;
  for (const at::Tensor* tensor : tensors) {
    if (!tensor->defined() || tensor->layout() != c10::kStrided) continue;
    geometry.append(tensor->sizes().begin(), tensor->sizes().end());
    geometry.append(tensor->strides().begin(), tensor->strides().end());
  }
  return pattern_->match(geometry);
}

bool TensorGuards::check(c10::ArrayRef<const at::Tensor*> tensors, SymbolValues* symbols) const {
  if (tensors.size() != facts_.size()) return false;
  if (pattern_) {
    const auto found = match(tensors);
    if (!found) return false;
    if (symbols != nullptr) *symbols = *found;
  }
  const bool holds = visit_sharing(tensors, [&](uint32_t i, uint32_t first) {
    const Facts& facts = facts_[i];
    if (may_be_transformed(*tensors[i])) return false;
    if (!(facts_of(*tensors[i], facts.geometry) == facts)) return false;
    if (facts.defined && !pattern_ && !same_geometry(*tensors[i], facts)) return false;
    // Most tensors share with no other, and are recognized by their own position.
    return first == i ? sharing_[i].first == i : sharing_[i] == sharing_of(tensors, i, first);
  });
  return holds && first_other_offset(tensors) == offsets_.size() && same_lent_memory(tensors);
}

std::string TensorGuards::first_failure(c10::ArrayRef<const at::Tensor*> tensors,
                                        const std::function<std::string(size_t)>& path_of) const {
  if (tensors.size() != facts_.size())
    return fmt::format("there were {} tensors, now there are {}", facts_.size(), tensors.size());
  const bool sizes_fit = pattern_ && match(tensors);
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
    if (now.is_conjugate != then.is_conjugate) return says("is_conj", then.is_conjugate, now.is_conjugate);
    if (now.is_negative != then.is_negative) return says("is_neg", then.is_negative, now.is_negative);
    if (now.is_inference != then.is_inference) return says("is_inference", then.is_inference, now.is_inference);
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
  if (const size_t other = first_other_offset(tensors); text.empty() && other != offsets_.size()) {
    const auto& [tensor, was] = offsets_[other];
    text = fmt::format("{}: storage offset was {}, is {}", path_of(tensor), was, tensors[tensor]->storage_offset());
  }
  if (text.empty() && !same_lent_memory(tensors)) {
    const auto now = lent_memory(tensors);
    const auto [was, is] = std::mismatch(lent_.begin(), lent_.end(), now.begin(), now.end());
    const uint32_t tensor = was != lent_.end() ? was->tensor : is->tensor;
    text = fmt::format("{}: which other inputs share its memory has changed", path_of(tensor));
  }
  return text;
}

}  // namespace diptych::detail
