// Whether elements lie in one place in memory: elements of one tensor by its strides, elements of two storages by their
// addresses.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/util/ArrayRef.h>

#include <cstdint>
#include <vector>

namespace diptych::detail {

/// Whether two elements of a tensor with these sizes and strides lie in one place. Exact up to 65,536 elements; beyond
/// that, strides that are too expensive to decide count as overlapping.
bool has_overlap(c10::IntArrayRef sizes, c10::IntArrayRef strides);

/// Whether elements of two tensors on one storage lie in one place. Exact where the blocks of the larger strides do not
/// overlap; otherwise exact up to a million runs of elements, and beyond that the tensors count as sharing.
bool share_places(const at::Tensor& a, const at::Tensor& b);

/// Whether all elements of `part` are elements of `whole`, which lies on the same storage. Exact up to a million runs
/// of elements; beyond that they count as lying elsewhere.
bool has_places_of(const at::Tensor& whole, const at::Tensor& part);

/// Where a storage lies in memory. The range is empty for a storage without elements, or whose elements are copied
/// before a write.
struct MemoryRange {
  uintptr_t begin = 0;
  uintptr_t end = 0;
  static MemoryRange of(const c10::StorageImpl& storage);
  bool overlaps(const MemoryRange& other) const { return begin < other.end && other.begin < end; }
};

/// Whether the memory of a storage was lent to it, by from_blob() or another library, so that another storage may have
/// the same memory. Storages that allocated their memory do not share it.
inline bool is_lent(const c10::StorageImpl& storage) { return !storage.resizable(); }

/// Whether two tensors share a storage, or have storages that share memory.
bool may_share_memory(const at::Tensor& a, const at::Tensor& b);

/// Returns for each tensor the position of the first tensor that it shares memory with, directly or through others; its
/// own position if there is none. A tensor without storage shares memory with no other.
std::vector<size_t> memory_groups(const std::vector<at::Tensor>& tensors);

}  // namespace diptych::detail
