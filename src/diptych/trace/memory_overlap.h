// Whether elements lie in one place: two of one tensor's, by its strides, and those of two storages, by their
// addresses.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/util/ArrayRef.h>

#include <cstdint>
#include <vector>

namespace diptych::detail {

/// Whether two elements of a tensor of these sizes and strides lie in one place. Exact up to 65,536 elements; beyond,
/// strides that are too hard to tell count as overlapping.
bool has_overlap(c10::IntArrayRef sizes, c10::IntArrayRef strides);

/// Whether elements of two tensors lie in one place, if their storages are one. Exact where each goes by steps of its
/// own or by those of the other; else up to a million runs of elements, and beyond they count as sharing.
bool share_places(const at::Tensor& a, const at::Tensor& b);

/// Whether all elements of `part` lie where elements of `whole` do, if their storages are one. Exact up to a million
/// runs of elements, and beyond they count as lying elsewhere.
bool has_places_of(const at::Tensor& whole, const at::Tensor& part);

/// Where a storage lies in memory. That of one without elements, or whose elements are copied before anyone writes to
/// them, is empty.
struct MemoryRange {
  uintptr_t begin = 0;
  uintptr_t end = 0;
  static MemoryRange of(const c10::StorageImpl& storage);
  bool overlaps(const MemoryRange& other) const { return begin < other.end && other.begin < end; }
};

/// Whether memory can be the same under two storages: one of them has it from somebody else, as from_blob() and what
/// other libraries lend. Two that allocated their own have it for themselves.
inline bool is_lent(const c10::StorageImpl& storage) { return !storage.resizable(); }

/// Whether two tensors share a storage, or have storages that share memory.
bool may_share_memory(const at::Tensor& a, const at::Tensor& b);

/// For each tensor, the position of the first one that it shares memory with, directly or by way of others; its own
/// where there is none. Tensors without storage share with none.
std::vector<size_t> memory_groups(const std::vector<at::Tensor>& tensors);

}  // namespace diptych::detail
