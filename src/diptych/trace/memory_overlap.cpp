#include "diptych/trace/memory_overlap.h"

#include <c10/core/impl/COW.h>

#include <algorithm>
#include <numeric>
#include <unordered_map>
#include <unordered_set>

namespace diptych::detail {
namespace {

constexpr int64_t kMostCounted = 1 << 16;

// Whether each dimension steps over all that the smaller ones reach; enough, but not needed, to have no overlap.
bool is_nested(c10::IntArrayRef sizes, c10::IntArrayRef strides) {
  std::vector<std::pair<int64_t, int64_t>> dims;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] != 1) dims.emplace_back(strides[i], sizes[i]);
  }
  std::sort(dims.begin(), dims.end());
  int64_t reach = 0;
  for (const auto& [stride, size] : dims) {
    if (stride <= reach) return false;
    reach += stride * (size - 1);
  }
  return true;
}

bool any_place_twice(c10::IntArrayRef sizes, c10::IntArrayRef strides) {
  std::vector<int64_t> places{0};
  for (size_t i = 0; i < sizes.size(); ++i) {
    const size_t count = places.size();
    for (int64_t step = 1; step < sizes[i]; ++step) {
      for (size_t k = 0; k < count; ++k) places.push_back(places[k] + step * strides[i]);
    }
  }
  return std::unordered_set<int64_t>(places.begin(), places.end()).size() != places.size();
}

const c10::StorageImpl* storage_impl(const at::Tensor& tensor) {
  return tensor.defined() && tensor.has_storage() ? tensor.storage().unsafeGetStorageImpl() : nullptr;
}

}  // namespace

bool has_overlap(c10::IntArrayRef sizes, c10::IntArrayRef strides) {
  const int64_t numel = c10::multiply_integers(sizes);
  if (numel < 2 || is_nested(sizes, strides)) return false;
  return numel > kMostCounted || any_place_twice(sizes, strides);
}

MemoryRange MemoryRange::of(const c10::StorageImpl& storage) {
  const auto* begin = static_cast<const char*>(storage.data());
  if (begin == nullptr || c10::impl::cow::is_cow_data_ptr(storage.data_ptr())) return {};
  return {reinterpret_cast<uintptr_t>(begin), reinterpret_cast<uintptr_t>(begin + storage.nbytes())};
}

bool may_share_memory(const at::Tensor& a, const at::Tensor& b) {
  const auto* left = storage_impl(a);
  const auto* right = storage_impl(b);
  if (left == nullptr || right == nullptr) return false;
  return left == right ||
         ((is_lent(*left) || is_lent(*right)) && MemoryRange::of(*left).overlaps(MemoryRange::of(*right)));
}

std::vector<size_t> memory_groups(const std::vector<at::Tensor>& tensors) {
  std::vector<size_t> groups(tensors.size());
  std::iota(groups.begin(), groups.end(), 0);
  std::unordered_map<const c10::StorageImpl*, size_t> first_of;
  std::vector<std::pair<MemoryRange, size_t>> ranges;
  bool any_lent = false;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const auto* storage = storage_impl(tensors[i]);
    if (storage == nullptr) continue;
    const auto [known, is_new] = first_of.emplace(storage, i);
    groups[i] = known->second;
    if (!is_new) continue;
    any_lent |= is_lent(*storage);
    const MemoryRange range = MemoryRange::of(*storage);
    if (range.begin < range.end) ranges.emplace_back(range, i);
  }
  if (!any_lent) return groups;
  std::sort(ranges.begin(), ranges.end(), [](const auto& a, const auto& b) { return a.first.begin < b.first.begin; });
  // From range to range, joined while one begins before the others end.
  std::vector<size_t> first(tensors.size());
  std::iota(first.begin(), first.end(), 0);
  for (size_t begin = 0; begin < ranges.size();) {
    uintptr_t end = ranges[begin].first.end;
    size_t last = begin + 1;
    size_t smallest = ranges[begin].second;
    for (; last < ranges.size() && ranges[last].first.begin < end; ++last) {
      end = std::max(end, ranges[last].first.end);
      smallest = std::min(smallest, ranges[last].second);
    }
    for (; begin < last; ++begin) first[ranges[begin].second] = smallest;
  }
  for (size_t& group : groups) group = first[group];
  return groups;
}

}  // namespace diptych::detail
